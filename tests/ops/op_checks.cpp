#include "tests/ops/op_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::testing {
using namespace gradus::core;

double relative_distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return std::numeric_limits<double>::infinity();
  const Tensor values = a.detach().to(float64).contiguous();
  const Tensor others = b.detach().to(float64).contiguous();
  const double *x = values.data<double>(), *y = others.data<double>();
  double difference = 0, size = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) {
      if (std::isfinite(y[i])) size += y[i] * y[i];
      continue;
    }
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference) / (size > 1e-12 ? std::sqrt(size) : 1);
}

Tensors draw(const Sample& sample) {
  Tensors inputs;
  for (const Input& input : sample) inputs.push_back(input.draw(input.shape));
  return inputs;
}

namespace {

// ---- running a row ----

/// Leaves with the inputs' values; floating ones are of `dtype` and require gradients.
Tensors leaves_of(const Tensors& inputs, Dtype dtype) {
  const NoGrad no_grad;
  Tensors leaves;
  for (const Tensor& x : inputs) {
    const bool floating = is_floating(x.dtype());
    leaves.push_back(floating ? x.to(dtype).clone().requires_grad_() : x);
  }
  return leaves;
}

bool is_wanted(const Tensor& x) { return is_floating(x.dtype()) && x.requires_grad(); }

Tensors wanted(const Tensors& tensors) {
  Tensors out;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(out), is_wanted);
  return out;
}

/// Random gradients for the outputs that require one; they depend only on the shapes.
Tensors output_gradients(const Tensors& outputs) {
  const RandomKey state = default_generator().state();
  manual_seed(20);
  Tensors gradients;
  for (const Tensor& y : outputs) {
    const Tensor dy = randn(y.shape(), float64);
    if (is_wanted(y)) gradients.push_back(dy.to(y.dtype()));
  }
  default_generator().set_state(state);
  return gradients;
}

struct Run {
  Tensors outputs;    // outside the graph
  Tensors gradients;  // of the floating inputs, in order; undefined if missing
};

Tensors detached(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& x : tensors) out.push_back(x.detach());
  return out;
}

Tensors gradients_of(const Tensors& leaves) {
  Tensors out;
  for (const Tensor& x : leaves)
    if (is_floating(x.dtype())) out.push_back(x.grad());
  return out;
}

/// The sum of the outputs, each times a constant: its backward gives each output a gradient without
/// another owner. Undefined if no output requires one.
Tensor projection(const Tensors& outputs) {
  const Tensors ys = wanted(outputs), factors = output_gradients(outputs);
  Tensor total;
  for (size_t i = 0; i < ys.size(); ++i) {
    const Tensor term = sum(ys[i] * factors[i]);
    total = total.defined() ? total + term : term;
  }
  return total;
}

Run run(const TensorFunction& f, const Tensors& leaves) {
  const Tensors outputs = f(leaves);
  if (const Tensor total = projection(outputs); total.defined()) total.backward();
  return {detached(outputs), gradients_of(leaves)};
}

/// Throws unless both runs agree.
void compare(const std::string& what, const Run& got, const Run& expected, double tolerance) {
  auto compare_lists = [&](const char* kind, const Tensors& a, const Tensors& b) {
    check(a.size() == b.size(), what, ": ", a.size(), " ", kind, "s, expected ", b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (!a[i].defined() && !b[i].defined()) continue;
      check(a[i].defined() && b[i].defined(), what, ": ", kind, " ", i, " is ",
            a[i].defined() ? "defined" : "undefined", ", expected otherwise");
      const double distance = relative_distance(a[i], b[i]);
      check(distance <= tolerance, what, ": ", kind, " ", i, " is off by ", distance,
            " of its norm: got\n", a[i], "\nexpected\n", b[i]);
    }
  };
  compare_lists("output", got.outputs, expected.outputs);
  compare_lists("gradient", got.gradients, expected.gradients);
}

Tensors rounded_to_float32(const Tensors& inputs) {
  Tensors out;
  for (const Tensor& x : inputs)
    out.push_back(is_floating(x.dtype()) ? x.to(float32).to(x.dtype()) : x);
  return out;
}

Tensors as_dtype(const Tensors& tensors, Dtype dtype) {
  Tensors out;
  for (const Tensor& x : tensors)
    out.push_back(x.defined() && is_floating(x.dtype()) ? x.to(dtype) : x);
  return out;
}

/// f applied to intermediate tensors, which only the graph holds once f has returned.
TensorFunction on_passing_inputs(const TensorFunction& f) {
  return [&f](const Tensors& x) {
    Tensors made;
    for (const Tensor& t : x) made.push_back(is_floating(t.dtype()) ? t * 1.0 : t.clone());
    return f(made);
  };
}

// ---- layouts ----

using Layout = std::function<Tensor(const Tensor&)>;

/// Storage of `shape` filled with values that must not be read: NaN, an index out of range, true.
Tensor poisoned(const Shape& shape, Dtype dtype) {
  return full(shape, is_floating(dtype) ? NAN : dtype == int64 ? -1e18 : 1, dtype);
}

Tensor reversed_axes(const Tensor& x) {
  Shape order;
  for (int i = x.rank() - 1; i >= 0; --i) order.push_back(i);
  return x.permute(order).clone().permute(order);
}

/// Every second element along each axis of a larger tensor.
Tensor every_second(const Tensor& x) {
  Shape larger = x.shape();
  for (int64_t& size : larger) size = 2 * size + 1;
  Tensor view = poisoned(larger, x.dtype());
  for (int i = 0; i < x.rank(); ++i) view = view.slice(i, 1, INT64_MAX, 2);
  view.copy_(x);
  return view;
}

/// Contiguous rows with gaps between them.
Tensor rows_apart(const Tensor& x) {
  if (x.rank() == 0) return x;
  Shape larger = x.shape();
  larger.back() += 3;
  const Tensor view = poisoned(larger, x.dtype()).slice(-1, 2, 2 + x.size(-1));
  view.copy_(x);
  return view;
}

/// Index 0 of an axis, repeated with stride 0.
Tensor repeated(const Tensor& x, int64_t dim) {
  if (x.rank() == 0 || x.size(dim) == 0) return x;
  return x.slice(dim, 0, 1).clone().expand(x.shape());
}

const std::vector<std::pair<const char*, Layout>>& layouts() {
  static const std::vector<std::pair<const char*, Layout>> all{
      {"axes reversed", reversed_axes},
      {"every second element", every_second},
      {"rows apart", rows_apart},
      {"first axis repeated", [](const Tensor& x) { return repeated(x, 0); }},
      {"last axis repeated", [](const Tensor& x) { return repeated(x, -1); }}};
  return all;
}

/// Leaves with the inputs' values; input `only` (-1: all) is laid out in memory by `layout`.
Tensors laid_out(const Tensors& inputs, const Layout& layout, int only) {
  const NoGrad no_grad;
  Tensors leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool apply = only < 0 || static_cast<size_t>(only) == i;
    const Tensor x = apply ? layout(inputs[i]).detach() : inputs[i].clone();
    leaves.push_back(is_floating(x.dtype()) ? x.requires_grad_() : x);
  }
  return leaves;
}

Tensors contiguous_leaves(const Tensors& tensors) {
  const NoGrad no_grad;
  Tensors leaves;
  for (const Tensor& x : tensors) {
    const Tensor copy = x.detach().clone();
    leaves.push_back(x.requires_grad() ? copy.requires_grad_() : copy);
  }
  return leaves;
}

void check_not_overwritten(const Tensors& inputs, const Tensors& copies) {
  for (size_t i = 0; i < inputs.size(); ++i)
    check(relative_distance(inputs[i].detach(), copies[i].detach()) == 0, "input ", i,
          " was overwritten");
}

/// Runs f and its backward with output gradients in a layout, and checks that they are not
/// overwritten.
Run run_with(const TensorFunction& f, const Tensors& leaves, const Layout& layout) {
  const Tensors outputs = f(leaves), ys = wanted(outputs);
  Tensors gradients = output_gradients(outputs);
  for (Tensor& g : gradients) g = layout(g);
  const Tensors before = contiguous_leaves(gradients);
  if (ys.size() == 1)
    ys[0].backward(gradients[0]);
  else if (!ys.empty()) {
    const Tensors into = wanted(leaves);
    const Tensors given = grad(ys, into, {.grad_outputs = gradients, .allow_unused = true});
    for (size_t i = 0; i < into.size(); ++i) into[i].set_grad(given[i]);
  }
  for (size_t i = 0; i < gradients.size(); ++i)
    check(relative_distance(gradients[i], before[i]) == 0, "the output gradient was overwritten");
  return {detached(outputs), gradients_of(leaves)};
}

}  // namespace

// ---- the checks ----

void check_gradients(const OpRow& row, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs, float64);
  const TensorFunction projected = [&](const Tensors& x) { return Tensors{projection(row.f(x))}; };
  for (const TensorFunction& f : {row.f, projected}) {
    const GradcheckResult first = gradcheck(f, leaves, {.eps = row.eps});
    check(first.ok, first.message);
    const GradcheckResult second = gradgradcheck(f, leaves, {.eps = row.eps});
    check(second.ok, second.message);
  }
}

void check_composed(const OpRow& row, const Tensors& inputs) {
  if (!row.composed) return;
  compare("float64 against the composed form", run(row.f, leaves_of(inputs, float64)),
          run(row.composed, leaves_of(inputs, float64)), 1e-10);
  compare("float32 against the composed form", run(row.f, leaves_of(inputs, float32)),
          run(row.composed, leaves_of(inputs, float32)), 1e-4);
}

void check_create_graph(const OpRow& row, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs, float64);
  const Tensors outputs = row.f(leaves), ys = wanted(outputs), into = wanted(leaves);
  const Tensors dy = output_gradients(outputs);
  auto pass = [&](bool create_graph) {
    return Run{
        {},
        detached(grad(ys, into,
                      {.grad_outputs = dy, .create_graph = create_graph, .retain_graph = true}))};
  };
  compare("under create_graph", pass(true), pass(false), 1e-9);
}

void check_float32(const OpRow& row, const Tensors& inputs) {
  const Tensors rounded = rounded_to_float32(inputs);
  const Run single = run(row.f, leaves_of(rounded, float32));
  const Run expected = run(row.f, leaves_of(rounded, float64));
  for (const Tensors* list : {&single.outputs, &single.gradients})
    for (const Tensor& x : *list)
      check(!x.defined() || x.dtype() != float64, "float32 inputs made a float64 tensor");
  compare("float32 against float64",
          {as_dtype(single.outputs, float64), as_dtype(single.gradients, float64)}, expected, 1e-4);
}

void check_layouts(const OpRow& row, const Tensors& inputs) {
  const Layout as_it_is = [](const Tensor& x) { return x; };
  const Run plain = run(row.f, leaves_of(inputs, float64));
  for (const auto& [name, layout] : layouts()) {
    const Layout copied = [&layout = layout](const Tensor& x) { return layout(x).clone(); };
    if (inputs[0].numel() >= 1000) {
      const Tensors leaves = laid_out(inputs, layout, -1), copies = contiguous_leaves(leaves);
      compare(std::string("inputs and output gradient: ") + name, run_with(row.f, leaves, layout),
              run_with(row.f, copies, copied), 1e-12);
      check_not_overwritten(leaves, copies);
      continue;
    }
    const int alone = inputs.size() > 1 ? static_cast<int>(inputs.size()) : 0;
    for (int only = -1; only < alone; ++only) {
      const Tensors leaves = laid_out(inputs, layout, only), copies = contiguous_leaves(leaves);
      compare(std::string("inputs: ") + name, run(row.f, leaves), run(row.f, copies), 1e-12);
      check_not_overwritten(leaves, copies);
    }
    compare(std::string("output gradient: ") + name,
            run_with(row.f, leaves_of(inputs, float64), layout),
            run_with(row.f, leaves_of(inputs, float64), copied), 1e-12);
  }
  compare("output gradient: held by the caller",
          run_with(row.f, leaves_of(inputs, float64), as_it_is), plain, 1e-12);
}

void check_accumulation(const OpRow& row, const Tensors& inputs) {
  for (const TensorFunction& f : {row.f, on_passing_inputs(row.f)}) {
    const Tensors leaves = leaves_of(inputs, float64);
    const Tensor total = projection(f(leaves));
    total.backward({}, true);
    Run expected{{}, gradients_of(leaves)};
    for (Tensor& g : expected.gradients)
      if (g.defined()) g = g + g;
    total.backward();
    compare("a second backward pass", {{}, gradients_of(leaves)}, expected, 1e-12);
  }
}

void check_wanted(const OpRow& row, const Tensors& inputs) {
  const Tensors all = leaves_of(inputs, float64);
  run(row.f, all);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    const Tensors leaves = leaves_of(inputs, float64);
    for (size_t j = 0; j < leaves.size(); ++j)
      if (is_floating(leaves[j].dtype())) leaves[j].requires_grad_(j == i);
    run(row.f, leaves);
    for (size_t j = 0; j < leaves.size(); ++j)
      check(j == i || !leaves[j].grad().defined(), "input ", j, " got a gradient that only input ",
            i, " wanted");
    compare("input " + std::to_string(i) + " alone wants a gradient", {{}, {leaves[i].grad()}},
            {{}, {all[i].grad()}}, 1e-12);
    const Tensors again = leaves_of(inputs, float64);
    const Tensor total = projection(row.f(again));
    compare("input " + std::to_string(i) + " alone is asked for",
            {{}, grad({total}, {again[i]}, {.allow_unused = true})}, {{}, {all[i].grad()}}, 1e-12);
  }
}

void check_ways(const OpRow& row, const Tensors& inputs) {
  const Run expected = run(row.f, leaves_of(inputs, float64));
  compare("inputs that only the graph holds",
          run(on_passing_inputs(row.f), leaves_of(inputs, float64)), expected, 1e-12);
  const Tensors hooked = leaves_of(inputs, float64);
  for (const Tensor& x : wanted(hooked)) x.register_hook([](const Tensor& g) { return g; });
  compare("with hooks", run(row.f, hooked), expected, 1e-12);
  for (const Tensor& y : expected.outputs)
    for (double v : y.to_vector<double>())
      if (!std::isfinite(v)) return;  // such as the mean of an empty tensor, a true anomaly
  const AnomalyMode anomaly;
  compare("in AnomalyMode", run(row.f, leaves_of(inputs, float64)), expected, 1e-12);
}

void check_overwritten(const OpRow& row, const Tensors& inputs) {
  auto fresh = [&] {
    Tensors leaves = leaves_of(inputs, float64);
    for (Tensor& x : leaves)
      if (!is_floating(x.dtype())) x = x.clone();
    return leaves;
  };
  auto overwrite = [](const Tensor& x) {
    const NoGrad no_grad;
    if (x.dtype() == boolean)
      x.copy_(logical_not(x));
    else if (x.dtype() == int64)
      x.fill_(0);
    else
      x.copy_(x * 1.5 + 0.25);
  };
  for (const bool create_graph : {false, true}) {
    auto gradients = [&](const Tensors& outputs, const Tensors& leaves) {
      return grad(wanted(outputs), wanted(leaves),
                  {.grad_outputs = output_gradients(outputs),
                   .create_graph = create_graph,
                   .allow_unused = true});
    };
    const Tensors first = fresh(), made = row.f(first), expected = gradients(made, first);
    for (size_t i = 0; i < inputs.size() + made.size(); ++i) {
      const Tensors leaves = fresh(), outputs = row.f(leaves);
      const bool is_input = i < inputs.size();
      const Tensor x = is_input ? leaves[i] : outputs[i - inputs.size()];
      const Shape& strides = x.strides();
      if (std::find(strides.begin(), strides.end(), 0) != strides.end()) continue;
      overwrite(x);
      Tensors got;
      try {
        got = gradients(outputs, leaves);
      } catch (const Error& e) {
        check(std::string(e.what()).find("changed in place") != std::string::npos, e.what());
        continue;
      }
      compare(is_input ? "an input was written over" : "an output was written over", {{}, got},
              {{}, expected}, 1e-12);
    }
  }
}

void check_live_bytes(const OpRow& row, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs, float64), into = wanted(leaves);
  const int64_t before = memory_stats().live;
  auto check_live = [&](const char* when) {
    for (const Tensor& x : leaves) x.set_grad({});
    check(memory_stats().live == before, memory_stats().live - before, " bytes stay after ", when);
  };
  row.f(leaves);
  check_live("forward");
  if (!row.differentiable) return;
  projection(row.f(leaves)).backward();
  check_live("backward");
  projection(row.f(leaves)).backward({}, true);
  check_live("backward with retain_graph");
  {
    const Tensors once =
        grad({projection(row.f(leaves))}, into, {.create_graph = true, .allow_unused = true});
    if (const Tensor total = projection(once); total.defined()) total.backward();
  }
  check_live("gradients of gradients");
}

void check_threads(const OpRow& row, const Tensors& inputs) {
  const int before = num_threads();
  for (Dtype dtype : {float32, float64}) {
    std::vector<Run> runs;
    for (int threads : {1, 2}) {
      set_num_threads(threads);
      runs.push_back(run(row.f, leaves_of(inputs, dtype)));
    }
    set_num_threads(before);
    compare("two threads against one", runs[1], runs[0], 0);
  }
}

void check_no_gradient(const OpRow& row, const Tensors& inputs) {
  for (const Tensor& y : row.f(leaves_of(inputs, float64)))
    check(!y.requires_grad(), "an output requires grad");
}

std::vector<std::string> recorded_names(const Tensors& outputs) {
  std::vector<std::string> names;
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> seen;
  auto visit = [&](const Node* node) {
    if (node && seen.insert(node).second) nodes.push_back(node);
  };
  for (const Tensor& y : outputs)
    if (y.defined()) visit(y.impl().node.get());
  for (size_t i = 0; i < nodes.size(); ++i) {
    names.push_back(nodes[i]->name());
    for (const Edge& edge : nodes[i]->edges()) visit(edge.node.get());
  }
  return names;
}

}  // namespace gradus::testing
