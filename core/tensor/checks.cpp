#include "gradus/core/tensor/checks.h"

#include <cstring>
#include <span>

#include "gradus/core/internal.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace {

using Dims = std::span<const Dim>;

bool same_name(const Dim& a, const Dim& b) {
  return a.name() && b.name() && std::strcmp(a.name(), b.name()) == 0;
}

/// True if `shape` has the axes that dims describes, none of them "...".
bool fits_exactly(const Shape& shape, Dims dims) {
  if (shape.size() != std::ssize(dims)) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = shape[static_cast<int>(i)];
    if (!dims[i].name() && size != dims[i].size()) return false;
    for (size_t j = 0; j < i; ++j)
      if (same_name(dims[i], dims[j]) && size != shape[static_cast<int>(j)]) return false;
  }
  return true;
}

bool fits(Shape shape, Dims dims) {
  const Dim any("...");
  const auto rest =
      std::find_if(dims.begin(), dims.end(), [&](const Dim& dim) { return same_name(dim, any); });
  if (rest == dims.end()) return fits_exactly(shape, dims);
  if (shape.size() + 1 < std::ssize(dims)) return false;
  // Replaces the axes that "..." stands for by a single one, which "..." then matches.
  const auto at = static_cast<int>(rest - dims.begin());
  while (shape.size() >= std::ssize(dims)) shape.erase(at);
  shape.insert(at, 0);
  return fits_exactly(shape, dims);
}

/// Formats dims as text: "(B, T, 64)", or "(B,)" for a single axis.
std::string to_string(Dims dims) {
  core::Text out;
  for (const Dim& dim : dims) {
    out << (&dim == dims.data() ? "(" : ", ");
    if (dim.name())
      out << dim.name();
    else
      out << dim.size();
  }
  out << (dims.empty() ? "()" : dims.size() == 1 ? ",)" : ")");
  return out.str();
}

}  // namespace

void core::check_shape(const char* op, const char* what, const Tensor& x,
                       std::initializer_list<Dim> dims) {
  if (x.defined() && fits(x.shape(), {dims.begin(), dims.size()})) return;
  const std::string expected = to_string({dims.begin(), dims.size()});
  check(x.defined(), op, ": expected ", what, " ", expected, ", got an undefined tensor");
  fail(op, ": expected ", what, " ", expected, ", got ", x.shape());
}

void core::check_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": expected float32 or float64, got ", x.dtype());
}

void core::check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op, ": dtypes differ: ", a.dtype(), " and ", b.dtype());
}

bool core::is_expanded(const Tensor& x) {
  for (int i = 0; x.numel() > 0 && i < x.rank(); ++i)
    if (x.strides()[i] == 0 && x.shape()[i] > 1) return true;
  return false;
}

}  // namespace gradus
