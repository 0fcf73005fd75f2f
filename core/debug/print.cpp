// Formatting tensors as text.

#include <iomanip>

#include "gradus/core/internal.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {

constexpr int64_t abridge_above = 1000;  // elements; larger tensors show only each axis's ends
constexpr int64_t edge_items = 3;

/// Returns the element of a one-element tensor.
double number_of(const Tensor& x) { return (x.dtype() == bfloat16 ? x.to(float32) : x).item(); }

/// The number format shared by all elements of a tensor.
struct Format {
  bool scientific = false;
  int precision = 0;
  int width = 0;

  /// Formats a one-element tensor.
  std::string write(const Tensor& x) const {
    core::Text out;
    const double v = number_of(x);
    if (x.dtype() == boolean)
      out << (v != 0 ? "true" : "false");
    else if (x.dtype() == int64)
      out << x.item<int64_t>();
    else if (!std::isfinite(v))
      out << (std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else
      out << (scientific ? std::scientific : std::fixed) << std::setprecision(precision) << v;
    return out.str();
  }
};

/// Returns the indices shown along an axis; -1 marks the gap. A tensor without elements may have a
/// long axis.
std::vector<int64_t> shown_indices(int64_t size, bool abridged) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < size; ++i) {
    if ((abridged || size > abridge_above) && size > 2 * edge_items && i == edge_items) {
      out.push_back(-1);
      i = size - edge_items;
    }
    out.push_back(i);
  }
  return out;
}

/// Calls f(element) for each element shown.
void visit(const Tensor& x, bool abridged, const std::function<void(const Tensor&)>& f) {
  if (x.rank() == 0) return f(x);
  for (int64_t i : shown_indices(x.shape()[0], abridged))
    if (i >= 0) visit(x[i], abridged, f);
}

Format choose_format(const Tensor& x, bool abridged) {
  Format format;
  if (is_floating(x.dtype()) || x.dtype() == bfloat16) {
    double largest = 0, smallest = INFINITY;
    bool whole = true;
    visit(x, abridged, [&](const Tensor& element) {
      const double v = number_of(element);
      if (!std::isfinite(v)) return;
      largest = std::max(largest, std::abs(v));
      if (v != 0) smallest = std::min(smallest, std::abs(v));
      whole = whole && v == std::trunc(v);
    });
    format.scientific =
        largest >= 1e8 || (largest > 0 && (smallest < 1e-4 || largest / smallest > 1e8));
    format.precision = whole && !format.scientific ? 1 : 4;
  }
  visit(x, abridged, [&](const Tensor& element) {
    format.width = std::max(format.width, static_cast<int>(format.write(element).size()));
  });
  return format;
}

void write(std::ostream& out, const Tensor& x, const Format& format, bool abridged, int indent) {
  if (x.rank() == 0) {
    out << std::setw(format.width) << format.write(x);
    return;
  }
  const std::string pad(static_cast<size_t>(indent + 1), ' ');
  out << '[';
  bool first = true;
  for (int64_t i : shown_indices(x.shape()[0], abridged)) {
    if (!first) out << (x.rank() == 1 ? ", " : ",\n" + pad);
    first = false;
    if (i < 0)
      out << "...";
    else
      write(out, x[i], format, abridged, indent + 1);
  }
  out << ']';
}

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const NoGrad no_grad;
  const bool abridged = numel() > abridge_above;
  const bool readable = dtype() != int8 || impl().scales.defined();
  const Tensor x = dtype() == int8 && readable ? to(float32) : detach();
  core::Text out;
  if (readable) write(out, x, choose_format(x, abridged), abridged, 0);
  out << (readable ? "  " : "[...]  ") << dtype() << ' ' << shape();
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace gradus
