#include "tests/random_programs/checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/parallel.h"
#include "tests/random_programs/ops.h"
#include "tests/random_programs/run.h"

namespace gradus::programs {
using core::check;

namespace {

std::string name_of_value(const Program& program, size_t step) {
  const int op = program.steps[step].op;
  return "v" + std::to_string(step) +
         (op < 0 ? " (leaf)" : " (" + all_ops()[size_t(op)].name + ")");
}

// ---- comparing results ----

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

double norm_of(const Reals& v) {
  double s = 0;
  for (const double e : v) s += e * e;
  return std::sqrt(s);
}

double distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  Reals x = a.to_vector<double>();
  const Reals y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
  const double d = norm_of(x);
  return std::isfinite(d) ? d : INFINITY;
}

/// Calls compare(what, a, b) for each pair of values, gradients and what was seen on the way.
template <class Compare>
void for_each_pair(const Program& program, const Result& a, const Result& b, Compare&& compare) {
  check(a.values.size() == b.values.size(), "another number of steps");
  for (size_t s = 0; s < a.values.size(); ++s) {
    const std::string name = name_of_value(program, s);
    check(a.values[s].size() == b.values[s].size(), name, ": another number of outputs");
    for (size_t k = 0; k < a.values[s].size(); ++k) compare(name, a.values[s][k], b.values[s][k]);
    compare("the gradient of " + name, a.gradients[s], b.gradients[s]);
    compare("the hook's gradient of " + name, a.seen.hooked[s], b.seen.hooked[s]);
    compare("the retained gradient of " + name, a.seen.retained[s], b.seen.retained[s]);
  }
}

void check_bits(const Program& program, const Result& a, const Result& b) {
  for_each_pair(program, a, b, [](const std::string& what, const Tensor& x, const Tensor& y) {
    check(same_bits(x, y), what, " differs: ", x, " and ", y);
  });
}

constexpr double noise = 1e-9;

/// How much relative errors of every single value matter.
struct Sensitivity {
  Reals moves;  ///< of each value and gradient, in the order of for_each_pair: distance / error
  double largest_gradient = 1;  ///< of any value; a rule's own rounding is relative to it
};

/// Returns the most in `runs` runs with noise.
Sensitivity sensitivity_of(const Program& program, const Result& plain, uint64_t runs) {
  Sensitivity most;
  Reals& worst = most.moves;
  for (uint64_t seed = 1; seed <= runs; ++seed) {
    const Result moved = run(program, {.noise = noise, .noise_seed = seed + program.seed * 64});
    most.largest_gradient = std::max(most.largest_gradient, moved.largest);
    size_t at = 0;
    for_each_pair(program, moved, plain, [&](const std::string&, const Tensor& a, const Tensor& b) {
      if (at == worst.size()) worst.push_back(0);
      if (a.defined() && b.defined() && is_floating(a.dtype()))
        worst[at] = std::max(worst[at], distance(a, b) / noise);
      ++at;
    });
  }
  return most;
}

/// Runs that measure a sensitivity: few for each program, many before one is called wrong, since
/// the noise of few runs may happen to cancel.
constexpr uint64_t few_runs = 2, many_runs = 60;

/// What the program computes, and how sensitive that is.
struct Reference {
  Result plain;
  Sensitivity sensitivity;
  bool measured_well = false;  // by many runs
};
std::optional<Reference> latest;  // of the program that is being checked

Reference& reference(const Program& program) {
  if (!latest) {
    Result plain = run(program);
    Sensitivity sensitivity = sensitivity_of(program, plain, few_runs);
    latest = {std::move(plain), std::move(sensitivity)};
  }
  return *latest;
}

/// The results agree as well as computing with relative errors of `eps` allows.
void check_within(const Program& program, const Result& a, double eps) {
  const auto& [b, sensitivity, measured_well] = reference(program);
  size_t at = 0;
  double largest = sensitivity.largest_gradient;
  for (const Tensor& g : b.gradients)  // they may include what was there before
    if (g.defined()) largest = std::max(largest, norm_of(g.to_vector<double>()));
  for_each_pair(
      program, a, b,
      [&, &moves = sensitivity.moves](const std::string& what, const Tensor& x, const Tensor& y) {
        const double moved = moves[at++];
        check(x.defined() == y.defined(), what, ": one of them is undefined");
        if (!x.defined()) return;
        check(x.shape() == y.shape(), what, ": shapes differ, ", x.shape(), " and ", y.shape());
        const double size = norm_of(y.to_vector<double>()), d = distance(x, y);
        const double allowed = eps * (20 * moved + 8 * size + 30 * largest);
        check(d <= allowed, what, ": distance ", d, " of ", size, ", allowed ", allowed, ": ", x,
              " and ", y);
      });
}

void check_close(const Program& program, const Result& a, double eps) {
  try {
    check_within(program, a, eps);
  } catch (const Error&) {
    Reference& known = reference(program);
    if (known.measured_well) throw;
    known.sensitivity = sensitivity_of(program, known.plain, many_runs);
    known.measured_well = true;
    check_within(program, a, eps);
  }
}

void compare_with_plain(const Program& program, const Way& way, double eps) {
  check_close(program, run(program, way), eps);
}

// ---- the checks ----

/// A second run gives the same, and no gradient shares memory with another.
void check_again(const Program& program) {
  const Result again = run(program);
  check_bits(program, again, reference(program).plain);
  std::map<const void*, const void*> owners;  // an op may return its argument, with its gradient
  for (const Tensors* gradients : {&again.gradients, &again.seen.retained})
    for (size_t s = 0; s < gradients->size(); ++s) {
      const Tensor& g = (*gradients)[s];
      if (!g.defined() || program.steps[s].leaf.has_grad) continue;
      const void* const owner = owners.try_emplace(g.impl().storage.get(), &g.impl()).first->second;
      check(g.is_contiguous() && owner == &g.impl(), "the gradient of ", name_of_value(program, s),
            " has no memory of its own");
    }
}

void check_composed(const Program& program) {
  compare_with_plain(program, {.composed = true}, 1e-13);
}

void check_contiguous(const Program& program) {
  compare_with_plain(program, {.contiguous = true}, 1e-13);
}

void check_apart(const Program& program) { compare_with_plain(program, {.apart = true}, 1e-13); }

void check_float32(const Program& program) {
  compare_with_plain(program, {.dtype = float32}, 0x1p-23);
}

/// Whether a kernel of our own computes large products. A BLAS rounds differently at the edges of
/// the pieces, which are as many on one thread as on two, but more on eight.
bool has_own_products(Dtype dtype) {
  return kernel::choose_product({.m = 64, .n = 64, .k = 64}, dtype) == kernel::ProductKernel::panel;
}

void check_threads(const Program& program) {
  const int before = num_threads();
  Result first;
  for (const Dtype dtype : {float32, float64})
    for (const int threads : {1, 2, 8}) {
      set_num_threads(threads);
      Result result = run(program, {.dtype = dtype});
      set_num_threads(before);
      if (threads == 1)
        first = std::move(result);
      else if (threads == 2 || !program.split || has_own_products(dtype))
        check_bits(program, result, first);
      else
        check_close(program, result, dtype == float32 ? 0x1p-23 : 1e-13);
    }
}

void check_modes(const Program& program) {
  const Result& plain = reference(program).plain;
  {
    const Profile profile;
    check_bits(program, run(program), plain);
  }
  {
    const AnomalyMode anomaly;
    check_bits(program, run(program), plain);
  }
  const AttentionTrace trace;
  check_bits(program, run(program), plain);
  for (size_t s = 0; s < plain.values.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.island == Island::eval && all_ops()[size_t(step.op)].name == "dropout_by_mode")
      check(same_bits(plain.values[s][0], value_of(plain.values, step.args[0])),
            name_of_value(program, s), " drops elements in evaluation");
  }
}

void check_recompute(const Program& program) {
  Random random(program.seed + 5);
  const auto n = static_cast<int64_t>(program.steps.size());
  const auto from = static_cast<int>(random.whole(0, n - 1));
  const auto to = static_cast<int>(random.whole(from + 1, n));
  // Sums of several gradients are added in another order.
  check_close(program, run(program, {.recompute_from = from, .recompute_to = to}), 1e-13);
}

/// grad() of the roots, without and with create_graph, equals backward().
void check_grad(const Program& program) {
  const Result& plain = reference(program).plain;
  for (const bool create_graph : {false, true}) {
    Result other;
    const Tensors leaves = make_leaves(program, {});
    const std::vector<Tensors> values = forward(program, leaves, {}, &other.seen);
    const Roots all = roots(program, values);
    const Tensors into = wanted(leaves);
    if (into.empty() || all.outputs.empty()) return;
    const Tensors given =
        grad(all.outputs, into,
             {.grad_outputs = all.gradients, .create_graph = create_graph, .allow_unused = true});
    other.values = plain.values;
    other.seen = plain.seen;  // grad() calls no hook off its paths
    size_t at = 0;
    for (const Tensor& x : leaves) {
      const bool asked = x.defined() && x.requires_grad();
      const Tensor g = asked ? given[at++] : Tensor();
      const Tensor before = asked ? x.grad() : Tensor();
      if (g.defined() && before.defined())
        other.gradients.push_back(before + g.detach());
      else
        other.gradients.push_back(g.defined() ? g.detach() : before);
    }
    check_close(program, other, 1e-12);
  }
}

/// What hooks saw equals what was retained, and what grad() returns for that value.
void check_intermediate(const Program& program) {
  const Result& plain = reference(program).plain;
  for (size_t s = 0; s < plain.values.size(); ++s) {
    if (program.steps[s].op < 0 || !plain.seen.retained[s].defined()) continue;
    const Tensors leaves = make_leaves(program, {});
    const std::vector<Tensors> values = forward(program, leaves, {});
    if (values[s][0].is_leaf()) continue;  // the op returned its argument, which has a gradient
    if (plain.seen.hooked[s].defined())
      check(same_bits(plain.seen.hooked[s], plain.seen.retained[s]), name_of_value(program, s),
            ": the hook got another gradient than was retained");
    const Roots all = roots(program, values);
    const Tensor g = grad(all.outputs, {values[s][0]}, {.grad_outputs = all.gradients})[0];
    check(distance(g, plain.seen.retained[s]) <= 1e-9 * (1 + norm_of(g.to_vector<double>())),
          name_of_value(program, s), ": grad() gives ", g, ", retained was ",
          plain.seen.retained[s]);
  }
}

void check_nothing_left(const Program& program) {
  const core::Modes before = core::modes();
  run(program);
  const int64_t live = memory_stats().live;
  int64_t needed = 0;
  {
    reset_peak_memory();
    const Result result = run(program);
    for (size_t s = 0; s < result.values.size(); ++s) {
      for (const Tensor& y : result.values[s]) needed += (y.numel() + 16) * 8;
      needed += program.steps[s].op < 0 ? (program.steps[s].leaf.shape.numel() + 16) * 16 : 0;
    }
  }
  const int64_t peak = memory_stats().peak - live;
  check(memory_stats().live == live, memory_stats().live - live, " bytes stay");
  // Values, their gradients, what rules save and kernels' scratch.
  check(peak <= 8 * needed + (1 << 20), "the peak is ", peak, " bytes, the values take ", needed);
  check(std::memcmp(&before, &core::modes(), sizeof before) == 0, "a mode is still on");
}

/// After a value was overwritten, backward throws or gives what it gave before.
void check_overwritten(const Program& program) {
  Random random(program.seed + 9);
  const Result& plain = reference(program).plain;
  const Tensors leaves = make_leaves(program, {});
  const std::vector<Tensors> values = forward(program, leaves, {});
  const Tensor total = loss(roots(program, values));
  if (!total.defined()) return;
  const auto s = static_cast<size_t>(random.whole(0, static_cast<int64_t>(values.size()) - 1));
  if (values[s].empty() || !is_floating(values[s][0].dtype())) return;
  const Tensor& x = values[s][0];
  if (std::find(x.strides().begin(), x.strides().end(), 0) != x.strides().end()) return;
  {
    const NoGrad no_grad;
    x.mul_(1.5).add_(ones_like(x), 0.25);
  }
  try {
    total.backward();
  } catch (const Error& e) {
    check(std::string(e.what()).find("changed in place") != std::string::npos, e.what());
    return;
  }
  for (size_t l = 0; l < leaves.size(); ++l)
    if (leaves[l].defined())
      check(same_bits(leaves[l].grad(), plain.gradients[l]), name_of_value(program, s),
            " was overwritten, and the gradient of v", l, " is ", leaves[l].grad(), ", was ",
            plain.gradients[l]);
}

// ---- derivatives ----

/// f(0), the slope of f at 0 by central differences, and how far the two steps disagree.
struct Slope {
  double value = 0, error = 0;
};

/// The derivative from differences at steps h and h / 2, and from either side.
Slope slope(const std::function<double(double)>& f, double h) {
  const double f0 = f(0), a = f(h), b = f(-h), c = f(h / 2), d = f(-h / 2);
  const double wide = (a - b) / (2 * h), narrow = (c - d) / h;
  const double right = (c - f0) / (h / 2), left = (f0 - d) / (h / 2);
  const double rounding = 1e-14 * (std::abs(a) + std::abs(b) + 1) / h;
  // A kink makes the sides differ much more than the curvature that both steps see.
  return {(4 * narrow - wide) / 3,
          std::abs(narrow - wide) + rounding + 0.02 * std::abs(right - left)};
}

/// Leaves moved by h times a direction.
Tensors moved(const Program& program, const Tensors& leaves, double h) {
  const NoGrad no_grad;
  Tensors out;
  for (size_t s = 0; s < leaves.size(); ++s)
    out.push_back(
        leaves[s].defined() && leaves[s].requires_grad()
            ? (leaves[s].detach() + constants(program.steps[s].leaf.shape, float64, s + 1234) * h)
                  .detach()
                  .requires_grad_()
            : leaves[s]);
  return out;
}

void check_slope(const char* what, const Slope& numeric, double analytic, double scale) {
  check(std::isfinite(analytic), what, " is ", analytic);
  if (!std::isfinite(numeric.value) || numeric.error > 1e-4 * (scale + 1)) {
    ++unmeasured();
    return;
  }
  check(std::abs(analytic - numeric.value) <= 10 * numeric.error + 1e-6 * scale + 1e-6, what,
        " is ", analytic, ", by differences ", numeric.value, " +- ", numeric.error);
}

/// The sum of the products of the gradients with the direction; adds to `scale`.
Tensor along(const Tensors& leaves, const Tensors& gradients, uint64_t salt, double& scale) {
  Tensor total;
  size_t at = 0;
  for (size_t s = 0; s < leaves.size(); ++s) {
    if (!leaves[s].defined() || !leaves[s].requires_grad()) continue;
    const Tensor g = gradients[at++];
    if (!g.defined()) continue;
    const Tensor term = sum(g * constants(g.shape(), float64, s + salt));
    scale += std::abs(term.item());
    total = total.defined() ? total + term : term;
  }
  return total;
}

void check_first(const Program& program) {
  const Tensors leaves = make_leaves(program, {});
  const std::vector<Tensors> values = forward(program, leaves, {});
  const Roots all = roots(program, values);
  const Tensors into = wanted(leaves);
  if (all.outputs.empty() || into.empty()) return;
  double scale = 0;
  const Tensor analytic =
      along(leaves, grad(all.outputs, into, {.grad_outputs = all.gradients, .allow_unused = true}),
            1234, scale);
  if (!analytic.defined()) return;
  const Slope numeric = slope(
      [&](double h) {
        const auto there = forward(program, moved(program, leaves, h), {.frozen = &values});
        const NoGrad no_grad;
        return loss(roots(program, there)).item();
      },
      1e-5);
  check_slope("the derivative", numeric, analytic.item(), scale);
}

void check_second(const Program& program) {
  const Tensors leaves = make_leaves(program, {});
  const std::vector<Tensors> values = forward(program, leaves, {});
  // The gradients along another direction than the one that is moved in, as a function of leaves.
  auto first = [&](const Tensors& at, bool create_graph) {
    const auto there = forward(program, at, {.frozen = &values});
    const Roots all = roots(program, there);
    double scale = 0;
    return all.outputs.empty() || wanted(at).empty() ? Tensor()
                                                     : along(at,
                                                             grad(all.outputs, wanted(at),
                                                                  {.grad_outputs = all.gradients,
                                                                   .create_graph = create_graph,
                                                                   .allow_unused = true}),
                                                             99, scale);
  };
  const Tensor g = first(leaves, true);
  if (!g.defined()) return;
  double scale = 0;
  Tensor analytic;
  if (g.requires_grad())
    analytic = along(leaves, grad({g}, wanted(leaves), {.allow_unused = true}), 1234, scale);
  const Slope numeric =
      slope([&](double h) { return first(moved(program, leaves, h), false).item(); }, 1e-5);
  check_slope("the second derivative", numeric, analytic.defined() ? analytic.item() : 0, scale);
}

}  // namespace

int64_t& unmeasured() {
  static int64_t count = 0;
  return count;
}

const std::vector<Check>& all_checks() {
  static const std::vector<Check> all{{"first derivatives", check_first},
                                      {"composed", check_composed, 0.5},
                                      {"float32", check_float32, 0.5},
                                      {"second derivatives", check_second, 0.25},
                                      {"contiguous", check_contiguous, 0.2},
                                      {"one storage", check_apart, 0.15},
                                      {"grad", check_grad, 0.25},
                                      {"hooks and retain_grad", check_intermediate, 0.2},
                                      {"overwritten", check_overwritten, 0.3},
                                      {"recompute", check_recompute, 0.2},
                                      {"profiler, anomaly mode and trace", check_modes, 0.1},
                                      {"run again", check_again, 0.1},
                                      {"memory and modes", check_nothing_left, 0.3},
                                      {"threads", check_threads, 0.03}};
  return all;
}

namespace {

std::string failure_in(const Check& check, const Program& program) {
  try {
    check.run(program);
    return "";
  } catch (const std::exception& e) {
    return std::string(e.what()).empty() ? "an exception without a message" : e.what();
  }
}

}  // namespace

std::string failure_of(const Check& check, const Program& program) {
  latest.reset();
  const std::string message = failure_in(check, program);
  latest.reset();
  return message;
}

const Check* failing_check(const Program& program, std::string& message) {
  Random random(program.seed ^ 0xc4ec);
  latest.reset();
  for (const Check& check : all_checks()) {
    const bool threads = check.run == check_threads;
    if (program.split ? !threads : !random.chance(check.share)) continue;
    message = failure_in(check, program);
    if (message.empty()) continue;
    latest.reset();
    return &check;
  }
  latest.reset();
  return nullptr;
}

}  // namespace gradus::programs
