#include "gradus/core/ops/einsum.h"

#include "gradus/core/ops/diagonal.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"

namespace gradus {

namespace {

/// A letter per axis. Digits name the axes of "...": 0 is the last, so that they broadcast.
using Labels = std::string;

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A tensor and its axes' labels, each of them once.
struct Operand {
  Tensor x;
  Labels labels;
};

/// The labels of a term of the equation, in which "..." stands for `ellipsis` axes.
Labels expanded(const std::string& equation, const std::string& term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const bool dots = term.compare(i, 3, "...") == 0 && term.find("...", i + 3) == Labels::npos;
    check(dots || is_letter(term[i]), "einsum: \"", equation,
          "\": expected letters and at most one \"...\" for each tensor, got \"", term, "\"");
    if (!dots) {
      labels += term[i];
      continue;
    }
    for (int k = ellipsis; k > 0; --k) labels += static_cast<char>('0' + k - 1);
    i += 2;
  }
  return labels;
}

/// The equation's terms: one for each tensor, then the output's, if there is an arrow.
struct Terms {
  std::vector<std::string> inputs;
  std::string output;
  bool arrow;
};

Terms terms_of(std::string equation) {
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  Terms terms{{}, "", arrow != std::string::npos};
  if (terms.arrow) terms.output = equation.substr(arrow + 2);
  std::string left = equation.substr(0, arrow);
  for (size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
    terms.inputs.push_back(left.substr(0, comma));
    left.erase(0, comma + 1);
  }
  terms.inputs.push_back(left);
  return terms;
}

/// An equation for tensors of known shapes.
struct Equation {
  std::string text;
  std::vector<Labels> inputs;
  Labels output;
  std::array<int64_t, 128> sizes;  // of each label

  Equation(const std::string& equation, const std::vector<Tensor>& tensors) : text(equation) {
    const Terms terms = terms_of(text);
    check(terms.inputs.size() == tensors.size(), "einsum: \"", text, "\" names ",
          terms.inputs.size(), " tensors, got ", tensors.size());
    sizes.fill(1);
    int most = 0;  // axes of "..."
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string& term = terms.inputs[i];
      const int letters = static_cast<int>(expanded(text, term, 0).size());
      const int ellipsis = has(term, '.') ? tensors[i].rank() - letters : 0;
      check(ellipsis >= 0 && letters + ellipsis == tensors[i].rank(), "einsum: \"", text,
            "\": expected \"", term, "\", got shape ", tensors[i].shape());
      inputs.push_back(expanded(text, term, ellipsis));
      most = std::max(most, ellipsis);
      take_sizes(inputs.back(), tensors[i].shape());
    }
    set_output(terms, most);
  }
  int64_t size(char label) const { return sizes[static_cast<size_t>(label)]; }
  Shape shape_of(const Labels& labels) const {
    check(labels.size() <= max_rank, "einsum: \"", text, "\": a product has ", labels.size(),
          " axes, at most ", max_rank, " are possible");
    Shape shape;
    for (const char label : labels) shape.push_back(size(label));
    return shape;
  }

 private:
  void take_sizes(const Labels& labels, const Shape& shape) {
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const char label = labels[axis];
      const int64_t n = shape[static_cast<int>(axis)], known = size(label);
      const size_t first = labels.find(label);  // axes of a diagonal do not broadcast
      const int64_t other = first < axis ? shape[static_cast<int>(first)] : known;
      check(n == other || (first == axis && (n == 1 || known == 1)), "einsum: \"", text,
            "\": ", is_letter(label) ? Labels(1, label) : "an axis of ...", " has sizes ", other,
            " and ", n);
      if (n != 1) sizes[static_cast<size_t>(label)] = n;
    }
  }

  void set_output(const Terms& terms, int most) {
    Labels all;
    for (const Labels& labels : inputs) all += labels;
    output = expanded(text, terms.arrow ? terms.output : "...", most);
    if (!terms.arrow) {
      std::sort(all.begin(), all.end());
      for (const char label : all)
        if (is_letter(label) && std::count(all.begin(), all.end(), label) == 1) output += label;
    }
    for (const char label : output) {
      check(has(all, label), "einsum: \"", text, "\": no tensor has the output's ", label);
      check(std::count(output.begin(), output.end(), label) == 1, "einsum: \"", text,
            "\": the output has ", label, " twice");
    }
  }
};

/// Returns x with each label once: a repeated label selects a diagonal. Axes of size 1 are removed,
/// which makes them broadcast.
Operand operand_of(Tensor x, Labels labels) {
  for (size_t j = 1; j < labels.size(); ++j) {
    const size_t i = labels.find(labels[j]);
    if (i == j) continue;
    x = diagonal(x, 0, i, j);
    const char label = labels[j];
    labels.erase(j, 1).erase(i, 1);
    labels += label;
    j = 0;
  }
  for (size_t axis = labels.size(); axis-- > 0;)
    if (x.size(static_cast<int64_t>(axis)) == 1) {
      x = x.squeeze(static_cast<int64_t>(axis));
      labels.erase(axis, 1);
    }
  return {x, labels};
}

/// Sums over the axes whose label is not in `kept`.
Operand summed(const Operand& operand, const Labels& kept) {
  Axes axes;
  Labels labels;
  for (size_t axis = 0; axis < operand.labels.size(); ++axis)
    if (has(kept, operand.labels[axis]))
      labels += operand.labels[axis];
    else
      axes.push_back(static_cast<int64_t>(axis));
  return {axes.empty() ? operand.x : sum(operand.x, axes), labels};
}

/// x with its axes in the order of `labels`, which has the same ones.
Tensor permuted(const Operand& operand, const Labels& labels) {
  Shape order;
  for (const char label : labels) order.push_back(static_cast<int64_t>(operand.labels.find(label)));
  return operand.x.permute(order);
}

/// The product, summed over the axes whose label is not in `kept`: (batch, rows, sums) x (batch,
/// sums, columns).
Operand product(const Equation& equation, const Operand& left, const Operand& right,
                const Labels& kept) {
  const Operand a = summed(left, kept + right.labels), b = summed(right, kept + left.labels);
  Labels batch, rows, sums, columns;
  for (const char label : a.labels)
    (!has(b.labels, label) ? rows : has(kept, label) ? batch : sums) += label;
  for (const char label : b.labels)
    if (!has(a.labels, label)) columns += label;
  auto count = [&](const Labels& labels) { return equation.shape_of(labels).numel(); };
  const Shape shape = equation.shape_of(batch + rows + columns);
  const Tensor x =
      permuted(a, batch + rows + sums).reshape({count(batch), count(rows), count(sums)});
  const Tensor y =
      permuted(b, batch + sums + columns).reshape({count(batch), count(sums), count(columns)});
  return {(sums.empty() ? x * y : matmul(x, y)).reshape(shape), batch + rows + columns};
}

}  // namespace

Tensor einsum(const std::string& text, const std::vector<Tensor>& tensors) {
  const ProfileScope scope("einsum");
  const Equation equation(text, tensors);
  for (const Tensor& x : tensors) {
    check_same_dtype("einsum", tensors[0], x);
    if (tensors.size() > 1) check_floating("einsum", x);
  }
  Operand result = operand_of(tensors[0], equation.inputs[0]);
  for (size_t i = 1; i < tensors.size(); ++i) {
    Labels kept = equation.output;
    for (size_t later = i + 1; later < tensors.size(); ++later) kept += equation.inputs[later];
    result = product(equation, result, operand_of(tensors[i], equation.inputs[i]), kept);
  }
  result = summed(result, equation.output);
  Labels order;
  for (const char label : equation.output)
    if (has(result.labels, label)) order += label;
  return permuted(result, order).reshape(equation.shape_of(equation.output));
}

}  // namespace gradus
