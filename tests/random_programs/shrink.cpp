#include "tests/random_programs/shrink.h"

#include <cmath>

#include "tests/random_programs/ops.h"
#include "tests/random_programs/run.h"

namespace gradus::programs {

namespace {

/// The program without the steps that no output depends on.
Program without_unused(const Program& program) {
  const size_t n = program.steps.size();
  std::vector<bool> used(n);
  for (const Ref ref : program.outputs) used[size_t(ref.step)] = true;
  for (size_t s = n; s-- > 0;)
    if (used[s])
      for (const Ref ref : program.steps[s].args) used[size_t(ref.step)] = true;
  std::vector<int> number(n);
  Program out{.seed = program.seed, .split = program.split};
  for (size_t s = 0; s < n; ++s) {
    if (!used[s]) continue;
    number[s] = static_cast<int>(out.steps.size());
    out.steps.push_back(program.steps[s]);
    for (Ref& ref : out.steps.back().args) ref.step = number[size_t(ref.step)];
  }
  for (Ref ref : program.outputs) {
    ref.step = number[size_t(ref.step)];
    out.outputs.push_back(ref);
  }
  return out;
}

class Shrinker {
 public:
  Shrinker(const Program& program, const Check& check) : best_(program), check_(check) {}

  Program run() {
    for (bool progress = true; progress && budget_ > 0;) {
      progress = false;
      for (const auto pass : {&Shrinker::fewer_outputs, &Shrinker::fewer_steps, &Shrinker::bypassed,
                              &Shrinker::plainer, &Shrinker::smaller_shapes})
        progress |= (this->*pass)();
    }
    simpler_numbers();
    return best_;
  }

 private:
  /// Takes the candidate if it fails the check too.
  bool take(const Program& candidate) {
    if (--budget_ < 0) return false;
    const Program program = without_unused(candidate);
    if (program.outputs.empty() || !makes_sense(program)) return false;
    if (failure_of(check_, program).empty()) return false;
    best_ = program;
    return true;
  }

  /// Whether it runs at all, with finite values at which every op is smooth.
  static bool makes_sense(const Program& program) {
    try {
      const NoGrad no_grad;
      const auto values = forward(program, make_leaves(program, {}), {});
      for (const Ref ref : program.outputs) value_of(values, ref);
      for (size_t s = 0; s < values.size(); ++s) {
        const Step& step = program.steps[s];
        for (const Tensor& y : values[s])
          if (is_floating(y.dtype()))
            for (const double v : y.to_vector<double>())
              if (!(std::abs(v) <= (program.split ? 2000 : 60))) return false;
        if (step.op < 0 || !all_ops()[size_t(step.op)].margin) continue;
        Tensors x;
        for (const Ref ref : step.args) x.push_back(value_of(values, ref));
        if (all_ops()[size_t(step.op)].margin(x, step.ints, step.reals) < 0.004) return false;
      }
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  bool fewer_outputs() {
    bool any = false;
    for (size_t k = best_.outputs.size(); k-- > 0;) {
      if (k >= best_.outputs.size() || best_.outputs.size() == 1) continue;
      Program candidate = best_;
      candidate.outputs.erase(candidate.outputs.begin() + static_cast<long>(k));
      any |= take(candidate);
    }
    return any;
  }

  /// Replaces a step by a leaf of its value, or ends the program at an earlier step.
  bool fewer_steps() {
    bool any = false;
    for (size_t s = best_.steps.size(); s-- > 0;) {
      if (s >= best_.steps.size() || best_.steps[s].op < 0) continue;
      Program ends = best_;
      ends.outputs = {{static_cast<int>(s), 0}};
      if (best_.outputs != ends.outputs && s + 1 < best_.steps.size() && take(ends)) {
        any = true;
        continue;
      }
      any |= as_leaf(s);
    }
    return any;
  }

  bool as_leaf(size_t s) {
    const auto values = [&] {
      const NoGrad no_grad;
      return forward(best_, make_leaves(best_, {}), {});
    }();
    if (values[s].size() != 1) return false;
    Program candidate = best_;
    Step& step = candidate.steps[s];
    const Tensor& y = values[s][0];
    for (const bool wants : {true, false}) {
      step = Step{};
      step.leaf = {.dtype = y.dtype(), .shape = y.shape(), .values = y.to_vector<double>()};
      for (double& v : step.leaf.values)
        if (is_floating(y.dtype())) v = std::round(v * 1024) / 1024;
      step.leaf.wants_grad = wants && is_floating(y.dtype());
      if (take(candidate)) return true;
    }
    return false;
  }

  /// Reads a step's argument instead of the step.
  bool bypassed() {
    bool any = false;
    for (size_t s = best_.steps.size(); s-- > 0;) {
      if (s >= best_.steps.size()) continue;
      const std::vector<Ref> args = best_.steps[s].args;
      for (const Ref arg : args) {
        Program candidate = best_;
        auto replace = [&](Ref& ref) {
          if (ref == Ref{static_cast<int>(s), 0}) ref = arg;
        };
        for (Step& step : candidate.steps)
          for (Ref& ref : step.args) replace(ref);
        for (Ref& ref : candidate.outputs) replace(ref);
        if (!take(candidate)) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  /// Drops hooks, modes, layouts and gradients one by one.
  bool plainer() {
    bool any = false;
    for (size_t s = 0; s < best_.steps.size(); ++s) {
      auto change = [&](auto&& edit) {
        Program candidate = best_;
        edit(candidate.steps[s]);
        any |= take(candidate);
      };
      if (best_.steps[s].hook) change([](Step& step) { step.hook = false; });
      if (best_.steps[s].retain) change([](Step& step) { step.retain = false; });
      if (best_.steps[s].island != Island::none)
        change([](Step& step) { step.island = Island::none; });
      if (best_.steps[s].leaf.layout != Layout::contiguous)
        change([](Step& step) { step.leaf.layout = Layout::contiguous; });
      if (best_.steps[s].leaf.has_grad) change([](Step& step) { step.leaf.has_grad = false; });
      if (best_.steps[s].leaf.wants_grad && wanted_leaves() > 1)
        change([](Step& step) { step.leaf.wants_grad = step.leaf.has_grad = false; });
    }
    return any;
  }

  int wanted_leaves() const {
    int count = 0;
    for (const Step& step : best_.steps) count += step.leaf.wants_grad;
    return count;
  }

  /// Cuts every axis of size n of every leaf to a smaller size, for each n.
  bool smaller_shapes() {
    bool any = false;
    for (int64_t n = 400; n >= 2; --n)
      for (const int64_t to : {int64_t{1}, int64_t{2}, n / 2, n - 1})
        if (to < n && to > 0 && has_size(n)) any |= take(cut(n, to));
    return any;
  }

  bool has_size(int64_t n) const {
    for (const Step& step : best_.steps)
      for (const int64_t m : step.leaf.shape)
        if (m == n) return true;
    return false;
  }

  Program cut(int64_t n, int64_t to) const {
    Program candidate = best_;
    for (Step& step : candidate.steps) {
      for (int64_t& i : step.ints)
        if (i == n) i = to;
      if (step.op >= 0) continue;
      Tensor x = leaf_tensor(step.leaf, float64, Layout::contiguous);
      for (int d = 0; d < x.rank(); ++d)
        if (x.size(d) == n) x = x.slice(d, 0, to);
      step.leaf.shape = x.shape();
      step.leaf.values = x.to_vector<double>();
    }
    return candidate;
  }

  void simpler_numbers() {
    for (const double unit : {1.0, 4.0, 16.0, 64.0}) {
      Program candidate = best_;
      for (Step& step : candidate.steps)
        for (double& v : step.leaf.values) v = std::round(v * unit) / unit;
      if (take(candidate)) return;
    }
  }

  Program best_;
  const Check& check_;
  int budget_ = 3000;
};

}  // namespace

Program shrunk(const Program& program, const Check& check) {
  return Shrinker(program, check).run();
}

}  // namespace gradus::programs
