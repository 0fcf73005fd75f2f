#include "tests/random_programs/wrong_calls.h"

#include <chrono>
#include <cstring>
#include <set>

#include "tests/random_programs/ops.h"
#include "tests/random_programs/run.h"

namespace gradus::programs {

namespace {

const std::set<std::string> copies{"written", "logical_not", "logical_and", "logical_or"};

/// A call, and whether it must throw whatever its op.
struct Call {
  Step step;
  Tensors x;
  bool must_throw = false;
  std::string fault;
};

/// Draws an op that runs, with its arguments.
bool draw_call(Random& random, Call& call) {
  Program program;
  std::vector<Tensors> values;
  Picker picker(random, program, values, Sizes::small);
  const auto op = static_cast<int>(random.whole(0, static_cast<int64_t>(all_ops().size()) - 1));
  const Op& drawn = all_ops()[static_cast<size_t>(op)];
  drawn.propose(picker);
  if (picker.failed) return false;
  call.step = picker.step;
  call.step.op = op;
  for (const Ref ref : call.step.args)
    call.x.push_back(
        values[static_cast<size_t>(ref.step)][static_cast<size_t>(ref.output)].clone());
  try {
    drawn.apply(call.x, call.step.ints, call.step.reals);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Another dtype than the argument has; throws for certain where dtypes are mixed.
void other_dtype(Random& random, Call& call, size_t k) {
  Tensor& x = call.x[k];
  const std::string& op = all_ops()[static_cast<size_t>(call.step.op)].name;
  size_t floats = 0;
  for (const Tensor& t : call.x) floats += is_floating(t.dtype());
  if (x.dtype() == int64) {
    x = x.to(float32);
    call.fault = "an index of float32";
    call.must_throw = true;
  } else if (x.dtype() == boolean) {
    x = x.to(int64);
    call.fault = "a mask of int64";
  } else {
    x = x.to(random.chance(0.5) ? float32 : boolean);
    call.fault = std::string("argument ") + std::to_string(k) + " of " + name_of(x.dtype());
    call.must_throw = floats > 1 && !copies.contains(op) && op != "where_" && op != "one_hot";
  }
}

void other_shape(Random& random, Call& call, size_t k) {
  Tensor& x = call.x[k];
  Shape shape = x.shape();
  switch (random.whole(0, 3)) {
    case 0:
      if (shape.size() > 0) shape.pop_back();
      break;
    case 1:
      shape.insert(0, random.whole(0, 3));
      break;
    case 2:
      if (shape.size() > 0) shape[0] = random.whole(0, 9);
      break;
    default:
      if (shape.size() > 0) shape[-1] = random.whole(0, 9);
  }
  x = zeros(shape, x.dtype());
  call.fault = "argument " + std::to_string(k) + " of another shape";
}

void other_option(Random& random, Call& call) {
  const int64_t strange[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, -1, -9, 9, int64_t{1} << 40};
  const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
  if (!call.step.ints.empty()) {
    const auto n = static_cast<int64_t>(call.step.ints.size());
    const int64_t value = strange[random.whole(0, 6)];
    call.step.ints[static_cast<size_t>(random.whole(0, n - 1))] = value;
    call.fault = "an option " + std::to_string(value);
  } else if (!call.step.reals.empty()) {
    call.step.reals[0] = odd[random.whole(0, 4)];
    call.fault = "an option " + std::to_string(call.step.reals[0]);
  } else {
    call.x.back() = Tensor();
    call.fault = "an undefined argument";
    call.must_throw = call.step.op != op_named("linear") && call.x.size() == 1;
  }
}

void bad_index(Random& random, Call& call) {
  for (Tensor& x : call.x)
    if (x.dtype() == int64 && x.numel() > 0) {
      const int64_t bad[] = {-1, 1000, INT64_MAX, INT64_MIN, -1000};
      const int64_t value = bad[random.whole(0, 4)];
      x.flatten().slice(0, random.whole(0, x.numel() - 1)).slice(0, 0, 1).fill_(0);
      x.data<int64_t>()[random.whole(0, x.numel() - 1)] = value;
      call.fault = "an index " + std::to_string(value);
      call.must_throw = call.step.op != op_named("bincount") || value < 0;
      return;
    }
}

/// In place, where it must not be: an alias that records gradients, or another shape.
void in_place(Random& random, Call& call, size_t k) {
  const Tensor x = call.x[k];
  if (!is_floating(x.dtype()) || x.rank() == 0) return;
  call.step.op = -1;
  call.must_throw = true;
  call.x = {x, zeros(Shape{x.numel() + 2, 5}, x.dtype())};
  const int64_t kind = random.whole(0, 2);
  call.step.ints = {kind};
  if (kind == 0) call.x[0] = x.clone().requires_grad_();
  if (kind == 2) call.x[0] = x.slice(0, 0, 1).clone().expand(x.shape());
  if (kind == 2 && (x.size(0) < 2 || x.numel() == 0)) call.must_throw = false;
  call.fault = kind == 0   ? "in place on a leaf"
               : kind == 1 ? "add_ of another shape"
                           : "in place on stride 0";
}

Tensors make(const Call& call) {
  if (call.step.op >= 0)
    return all_ops()[static_cast<size_t>(call.step.op)].apply(call.x, call.step.ints,
                                                              call.step.reals);
  if (call.step.ints[0] == 1) return {call.x[0].add_(call.x[1])};
  return {call.x[0].mul_(2)};
}

/// The bits of the arguments and of the thread's modes.
std::string bits(const Tensors& x) {
  std::string all(reinterpret_cast<const char*>(&core::modes()), sizeof(core::Modes));
  for (const Tensor& t : x) {
    if (!t.defined()) continue;
    const auto values = t.to_vector<double>();
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    all += std::to_string(t.impl().storage->version) + (t.requires_grad() ? "g" : "");
  }
  return all;
}

/// What is wrong with how the call ended, or an empty string.
std::string wrong(const Call& call) {
  int64_t given = 1 << 20;
  for (const Tensor& t : call.x)
    if (t.defined()) given += 64 * t.numel() * size_of(t.dtype());
  const std::string before = bits(call.x);
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  bool threw = false;
  std::string message;
  const auto start = std::chrono::steady_clock::now();
  try {
    make(call);
  } catch (const Error& e) {
    threw = true;
    message = e.what();
  } catch (const std::exception& e) {
    return std::string("another exception than Error: ") + e.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (took.count() > 2) return "it takes " + std::to_string(took.count()) + " s";
  if (call.must_throw && !threw) return "it does not throw";
  if (!threw) return "";
  if (message.size() < 8) return "its message is too short: " + message;
  if (memory_stats().live != live) return "bytes stay after: " + message;
  if (bits(call.x) != before) return "something changed: " + message;
  if (memory_stats().peak - live > given)
    return std::to_string(memory_stats().peak - live) + " bytes were allocated: " + message;
  return "";
}

}  // namespace

std::string wrong_call(uint64_t seed) {
  Random random(seed * 2 + 1);
  Call call;
  while (!draw_call(random, call)) call = {};
  const auto k = static_cast<size_t>(random.whole(0, static_cast<int64_t>(call.x.size()) - 1));
  const int op = call.step.op;
  switch (random.whole(0, 5)) {
    case 0:
      other_dtype(random, call, k);
      break;
    case 1:
      bad_index(random, call);
      break;
    case 2:
      in_place(random, call, k);
      break;
    case 3:
      other_option(random, call);
      break;
    default:
      other_shape(random, call, k);
  }
  if (call.fault.empty()) other_shape(random, call, k);
  const std::string message = wrong(call);
  if (message.empty()) return "";
  std::string shapes;
  for (const Tensor& x : call.x)
    if (x.defined()) {
      shapes += std::string(" ") + name_of(x.dtype()) + as_json(x.shape());
    }
  return all_ops()[static_cast<size_t>(op)].name + " with " + call.fault + ": " + message +
         "; arguments" + shapes + ", options " +
         as_json(Reals(call.step.ints.begin(), call.step.ints.end())) + as_json(call.step.reals);
}

}  // namespace gradus::programs
