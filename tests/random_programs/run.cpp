#include "tests/random_programs/run.h"

#include <cmath>
#include <set>

#include "tests/random_programs/ops.h"

namespace gradus::programs {

Tensor constants(const Shape& shape, Dtype dtype, uint64_t seed) {
  Random random(seed ^ 0x5eed);
  Reals values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = random.real(-1, 1);
  return from_data(values, shape).to(dtype);
}

Tensor leaf_tensor(const Leaf& leaf, Dtype dtype, Layout layout) {
  const Dtype own = is_floating(leaf.dtype) ? dtype : leaf.dtype;
  const Tensor x = from_data(leaf.values, leaf.shape).to(own);
  if (layout == Layout::contiguous || !is_floating(own)) return x;
  if (layout == Layout::transposed) return x.transpose(0, -1).contiguous().transpose(0, -1);
  if (layout == Layout::expanded) {
    const Tensor one = x.slice(leaf.axis, 0, 1).clone();
    return one.expand(leaf.shape);
  }
  Shape doubled = leaf.shape;
  doubled.push_back(2);
  const Tensor y = full(doubled, 1e30, own).select(-1, 1);
  y.copy_(x);
  return y;
}

namespace {

/// The leaves as parts of one storage. Between them, and in place of no element, lies 1e30.
Tensors in_one_storage(const Tensors& leaves, Dtype dtype) {
  int64_t total = 1;
  for (const Tensor& x : leaves)
    if (x.defined() && x.dtype() == dtype) total += x.numel() + 1;
  const Tensor storage = full({total}, 1e30, dtype);
  Tensors parts = leaves;
  int64_t at = 1;
  for (Tensor& x : parts)
    if (x.defined() && x.dtype() == dtype) {
      const Tensor part = storage.slice(0, at, at + x.numel()).reshape(x.shape());
      part.copy_(x);
      at += x.numel() + 1;
      x = part.detach();
    }
  return parts;
}

}  // namespace

const Tensor& value_of(const std::vector<Tensors>& values, Ref ref) {
  const Tensors& outputs = values[static_cast<size_t>(ref.step)];
  core::check(static_cast<size_t>(ref.output) < outputs.size(), "step ", ref.step, " has ",
              outputs.size(), " outputs, so none of number ", ref.output);
  return outputs[static_cast<size_t>(ref.output)];
}

Tensors make_leaves(const Program& program, const Way& way) {
  const NoGrad no_grad;
  Tensors leaves;
  for (const Step& step : program.steps) {
    const Layout layout = way.contiguous ? Layout::contiguous : step.leaf.layout;
    leaves.push_back(step.op < 0 ? leaf_tensor(step.leaf, way.dtype, layout) : Tensor());
  }
  if (way.apart) leaves = in_one_storage(leaves, way.dtype);
  for (size_t s = 0; s < leaves.size(); ++s) {
    const Leaf& leaf = program.steps[s].leaf;
    if (!leaf.wants_grad || !leaves[s].defined()) continue;
    leaves[s] = leaves[s].detach().requires_grad_();
    if (leaf.has_grad) leaves[s].set_grad(constants(leaf.shape, way.dtype, s + 77));
  }
  return leaves;
}

namespace {

Tensors arguments(const Step& step, const std::vector<Tensors>& values) {
  Tensors x;
  for (const Ref ref : step.args) x.push_back(value_of(values, ref));
  return x;
}

Tensors apply_step(const Step& step, const Tensors& x) {
  std::optional<GradMode> grad, again;
  std::optional<EvalMode> eval;
  if (step.island == Island::no_grad || step.island == Island::grad_again) grad.emplace(false);
  if (step.island == Island::grad_again) again.emplace(true);
  if (step.island == Island::eval) eval.emplace();
  Tensors outputs = all_ops()[static_cast<size_t>(step.op)].apply(x, step.ints, step.reals);
  return step.island == Island::no_grad ? outside(outputs) : outputs;
}

bool detaches(const Step& step) {
  return step.op >= 0 &&
         (step.island == Island::no_grad || all_ops()[static_cast<size_t>(step.op)].detaches);
}

Tensor noisy(const Tensor& y, const Way& way, size_t seed) {
  if (way.noise == 0 || !is_floating(y.dtype())) return y;
  const Tensor out =
      y * (constants(y.shape(), y.dtype(), way.noise_seed + seed * 31) * way.noise + 1.0);
  // Steps read `out`; a rule that reads its own output reads y.
  if (way.read) way.read->insert(way.read->end(), {y.detach(), out.detach()});
  return out;
}

/// Multiplies the elements by 1 + noise without telling the graph. Backward rules then read other
/// values than the forward pass did, as after a rounding: a rule computes x - mean again, from a
/// mean that has lost digits since.
void shake(const Tensors& all, const Way& way) {
  std::set<const void*> done;  // views share a storage
  for (size_t k = 0; k < all.size(); ++k) {
    if (!all[k].is_contiguous() || !done.insert(all[k].impl().storage.get()).second) continue;
    const Tensor factors = constants(all[k].shape(), float64, way.noise_seed + k * 37 + 11);
    double* const x = all[k].data<double>();
    for (int64_t e = 0; e < all[k].numel(); ++e) x[e] *= 1 + way.noise * factors.data<double>()[e];
  }
}

/// Runs steps [from, to), whose values are appended.
void run_steps(const Program& program, size_t to, const Tensors& leaves, const Way& way,
               std::vector<Tensors>& values) {
  while (values.size() < to) {
    const size_t s = values.size();
    const Step& step = program.steps[s];
    if (step.op < 0) {
      const bool exact = !step.leaf.wants_grad;  // and may have to be: a target is -1 or 1
      if (exact && way.read && is_floating(leaves[s].dtype())) way.read->push_back(leaves[s]);
      values.push_back({exact ? leaves[s] : noisy(leaves[s], way, s)});
      continue;
    }
    Tensors outputs = apply_step(step, arguments(step, values));  // draws random numbers, too
    if (way.frozen && detaches(step)) outputs = (*way.frozen)[s];
    for (Tensor& y : outputs) y = noisy(y, way, s);
    values.push_back(std::move(outputs));
  }
}

void watch(const Program& program, std::vector<Tensors>& values, Seen* seen) {
  for (size_t s = 0; s < values.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.op < 0 || values[s].empty() || !values[s][0].requires_grad()) continue;
    if (step.hook)
      values[s][0].register_hook([seen, s](const Tensor& g) {
        if (seen) seen->hooked[s] = g.detach().clone();
        return s % 2 == 0 ? Tensor() : g.clone();
      });
    if (step.retain) values[s][0].retain_grad();
  }
}

}  // namespace

std::vector<Tensors> forward(const Program& program, const Tensors& leaves, const Way& way,
                             Seen* seen) {
  manual_seed(program.seed);
  std::optional<core::ModeScope> composed;
  if (way.composed) composed.emplace(&core::Modes::composed, true);
  std::vector<Tensors> values;
  const auto from = static_cast<size_t>(way.recompute_from);
  if (way.recompute_to > way.recompute_from) {
    run_steps(program, from, leaves, way, values);
    Tensors inputs;
    std::vector<size_t> counts;
    for (const Tensors& outputs : values) {
      inputs.insert(inputs.end(), outputs.begin(), outputs.end());
      counts.push_back(outputs.size());
    }
    std::vector<size_t> made;
    const Tensors results = recompute(
        [&program, leaves, way, counts, &made](const Tensors& in) {
          std::vector<Tensors> own;
          size_t at = 0;
          for (const size_t n : counts) {
            own.emplace_back(in.begin() + static_cast<long>(at),
                             in.begin() + static_cast<long>(at + n));
            at += n;
          }
          run_steps(program, static_cast<size_t>(way.recompute_to), leaves, way, own);
          Tensors out;
          if (!recomputing()) made.clear();
          for (size_t s = counts.size(); s < own.size(); ++s) {
            if (!recomputing()) made.push_back(own[s].size());
            out.insert(out.end(), own[s].begin(), own[s].end());
          }
          return out;
        },
        inputs);
    size_t at = 0;
    for (const size_t n : made) {
      values.emplace_back(results.begin() + static_cast<long>(at),
                          results.begin() + static_cast<long>(at + n));
      at += n;
    }
  }
  run_steps(program, program.steps.size(), leaves, way, values);
  if (seen) seen->hooked.resize(values.size());
  watch(program, values, seen);
  return values;
}

Roots roots(const Program& program, const std::vector<Tensors>& values) {
  Roots roots;
  for (const Ref ref : program.outputs) {
    const Tensor& y = value_of(values, ref);
    if (!is_floating(y.dtype()) || !y.requires_grad()) continue;
    roots.outputs.push_back(y);
    roots.gradients.push_back(
        constants(y.shape(), y.dtype(), static_cast<uint64_t>(ref.step * 8 + ref.output)));
  }
  return roots;
}

Tensor loss(const Roots& roots) {
  Tensor total;
  for (size_t i = 0; i < roots.outputs.size(); ++i) {
    const Tensor term = sum(roots.outputs[i] * roots.gradients[i]);
    total = total.defined() ? total + term : term;
  }
  return total;
}

namespace {

/// Makes backward store the largest norm of all values' gradients.
void keep_largest(const std::vector<Tensors>& values, double& largest) {
  for (const Tensors& outputs : values)
    for (const Tensor& y : outputs) {
      if (!y.requires_grad()) continue;
      y.register_hook([&largest](const Tensor& g) {
        largest = std::max(largest, std::sqrt(sum(g.detach() * g.detach()).item()));
        return Tensor();
      });
    }
}

}  // namespace

Result run(const Program& program, const Way& way) {
  Result result;
  const Tensors leaves = make_leaves(program, way);
  Tensors read;
  Way own = way;
  if (way.noise != 0) own.read = &read;
  std::vector<Tensors> values = forward(program, leaves, own, &result.seen);
  const Tensor total = loss(roots(program, values));
  for (const Tensors& outputs : values) {
    Tensors outside;
    for (const Tensor& y : outputs)
      outside.push_back(way.noise != 0 ? y.detach().clone() : y.detach());
    result.values.push_back(std::move(outside));
  }
  if (way.noise != 0) keep_largest(values, result.largest);
  shake(read, way);
  if (total.defined()) total.backward();
  for (size_t s = 0; s < values.size(); ++s) {
    result.seen.retained.push_back(
        program.steps[s].retain && !values[s].empty() ? values[s][0].grad() : Tensor());
    result.gradients.push_back(leaves[s].defined() ? leaves[s].grad() : Tensor());
  }
  return result;
}

Tensors wanted(const Tensors& leaves) {
  Tensors out;
  for (const Tensor& x : leaves)
    if (x.defined() && x.requires_grad()) out.push_back(x);
  return out;
}

}  // namespace gradus::programs
