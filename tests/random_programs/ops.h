#pragma once
// The ops of random programs. Each entry tells how to choose the op's arguments among the values of
// a program, how to call the op, and which rows of the op table it corresponds to.

#include <functional>

#include "gradus/gradus.h"
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// The values that an argument of an op may have. positive: above 0.12. unit: between 0.12 and
/// 0.98. nonzero: more than 0.01 from 0. distinct: elements more than 0.01 apart.
enum class Domain { any, positive, unit, nonzero, distinct };

/// The sizes of new axes. If a shape has too many elements, Picker::shape() halves all its axes,
/// rounding up, until few enough are left.
enum class Sizes {
  small,  ///< at most 4
  mixed,  ///< a quarter of them from 30 to 90, the others at most 4
  /// Half of them from 100 to 400, the others at most 4. As soon as an argument of the op has an
  /// axis of 100 or more, all are at most 4. For programs that are `split`.
  split
};

/// Draws the arguments and options of a new step. Arguments are existing values or new leaves.
class Picker {
 public:
  Picker(Random& random, Program& program, std::vector<Tensors>& values, Sizes sizes);

  /// Adds an argument with a rank from `low` to `high` and returns its shape.
  Shape any(int low = 0, int high = 4, Domain domain = Domain::any);
  /// Adds an argument of this shape.
  void like(const Shape& shape, Domain domain = Domain::any);
  /// Adds an argument with a shape that broadcasts with `shape`.
  void beside(const Shape& shape, Domain domain = Domain::any);
  /// Adds a bool argument of this shape.
  void mask(const Shape& shape);
  /// Adds an int64 argument with values in [0, n).
  void indices(const Shape& shape, int64_t n);
  /// Adds a bool argument of any shape and returns its shape.
  Shape some_bool();
  /// Adds an argument of this shape that gets no gradient. If `signs` is true, its values are -1
  /// and 1.
  void constant(const Shape& shape, bool signs = false);

  void option(int64_t value) { step.ints.push_back(value); }
  void real(double low, double high) { step.reals.push_back(random.real(low, high)); }
  /// Returns a random axis of a tensor of this rank (>= 1) and adds it as an option. It may be
  /// negative.
  int64_t axis(int rank);
  int64_t size();  ///< size of a new axis, at least 1
  Shape shape(int low, int high);
  Shape shape_of(int arg) const;

  Random& random;
  Step step;
  bool failed = false;  ///< true if no argument fits; the step is then discarded

 private:
  bool pick(const std::function<bool(const Tensor&)>& fits);
  bool has_long_axis() const;  ///< whether an argument has an axis of 100 or more
  void leaf(Leaf leaf);
  Reals draw(const Shape& shape, Domain domain);
  Program& program_;
  std::vector<Tensors>& values_;
  Sizes sizes_;
};

using Propose = std::function<void(Picker&)>;
/// Proposes a tensor of rank >= 1 and one of its axes.
inline const Propose one_axis = [](Picker& p) { p.axis(p.any(1).size()); };
using Apply = Tensors (*)(const Tensors& x, const Ints& i, const Reals& r);
/// A function that returns how far the arguments of an op are from points where the op is too steep
/// or not smooth. generate() rejects a step if this margin is below 0.004.
using Margin = double (*)(const Tensors& x, const Ints& i, const Reals& r);

struct Op {
  std::string name;
  std::vector<std::string> rows = {};  ///< names of the op's rows in the op table; if empty, `name`
  const char* text;                    ///< the call, in C++
  Apply apply;
  Propose propose;
  Margin margin = nullptr;
  bool detaches = false;  ///< whether the op lets no gradient through
};

const std::vector<Op>& all_ops();
/// Returns the index of the op in all_ops(), or -1 if there is no such op.
int op_named(const std::string& name);

std::vector<Op> pointwise_ops();
std::vector<Op> reduction_ops();
std::vector<Op> shape_ops();
std::vector<Op> index_ops();
std::vector<Op> product_ops();
std::vector<Op> norm_ops();
std::vector<Op> loss_ops();
std::vector<Op> vision_ops();
std::vector<Op> sequence_ops();

/// Initialises two members of Op: the call as text and as a function.
#define GRADUS_CALL(...)                                                         \
  .text = #__VA_ARGS__,                                                          \
  .apply = []([[maybe_unused]] const Tensors& x, [[maybe_unused]] const Ints& i, \
              [[maybe_unused]] const Reals& r) -> Tensors { return Tensors{__VA_ARGS__}; }
/// Initialises the margin of an Op with an expression.
#define GRADUS_MARGIN(...)                                                        \
  .margin = []([[maybe_unused]] const Tensors& x, [[maybe_unused]] const Ints& i, \
               [[maybe_unused]] const Reals& r) -> double { return __VA_ARGS__; }

// ---- functions used in the calls ----

inline Shape shape_of(const Ints& sizes) {
  Shape shape;
  for (const int64_t n : sizes) shape.push_back(n);
  return shape;
}
inline Ints part(const Ints& i, size_t from) {
  return {i.begin() + static_cast<long>(from), i.end()};
}
inline RandomKey key(int64_t seed) { return {static_cast<uint64_t>(seed), 0}; }
inline Activation activation(int64_t i) { return core::activations[static_cast<size_t>(i) % 9]; }
inline Reduction reduction(int64_t i) {
  return static_cast<Reduction>(static_cast<uint64_t>(i) % 3);
}
inline Recurrence recurrence(int64_t i) {
  return static_cast<Recurrence>(static_cast<uint64_t>(i) % 4);
}
inline Tensor added(Tensor y, const Tensor& x) { return y += x; }
inline Tensor scaled(Tensor y, double factor) { return y *= factor; }
inline Tensor written(const Tensor& x, const Tensor& y, double a) {
  const Tensor z = x.detach().clone();
  const NoGrad no_grad;
  z.slice(0, 0, INT64_MAX, 2).mul_(a);
  return z.add_(y, a);
}
// einsum's equations, numbered as in replay_torch.py.
inline constexpr int64_t einsum_count = 8;
inline std::string einsum_equation(int64_t i) {
  const char* const equations[einsum_count] = {"ij,jk->ik",  "bij,bjk->bki",  "iij->ji",
                                               "ij,jk,kl->", "bi,oij,bj->bo", "ij,jk->ijk",
                                               "iij,jkk->k", "i,j,ij->"};
  return equations[static_cast<uint64_t>(i) % einsum_count];
}
/// Returns the tensors detached. This is needed even under NoGrad: an op that has nothing to change
/// returns its argument itself, which may be part of the graph.
inline Tensors outside(Tensors all) {
  for (Tensor& x : all) x = x.detach();
  return all;
}
inline Tensors both(const ValuesAndIndices& pair) { return {pair.values, pair.indices}; }
inline Tensors both(const RecurrentOutput& out) {
  Tensors all{out.output, out.state.h};
  if (out.state.c.defined()) all.push_back(out.state.c);
  return all;
}
/// Returns {h, c} after min(steps, 8) steps of a recurrent cell, or {h, h} if the cell has no c.
/// All steps have the same x_gates and weight. x is {x_gates (B, G H), weight (G H, H), h (B, H)}
/// for a cell with G gates and hidden size H or, for LSTM, {x_gates, weight, h, c}.
inline Tensors cells(int64_t cell, int64_t steps, const Tensors& x) {
  RecurrentState state{x[2], x.size() > 3 ? x[3] : x[2]};
  for (int64_t t = 0; t < std::min<int64_t>(steps, 8); ++t) {
    const RecurrentState next =
        core::recurrent_cell(recurrence(cell), x[0], linear(state.h, x[1]), state);
    state = {next.h, next.c.defined() ? next.c : next.h};
  }
  return {state.h, state.c};
}

/// Returns options for attention with the arguments x: q, k, v and perhaps a mask. The attention is
/// causal if i[0] is not 0.
inline AttentionOptions attention_options(const Ints& i, const Tensors& x) {
  AttentionOptions options{.causal = i[0] != 0};
  if (x.size() > 3) options.mask = x[3];
  return options;
}
/// Returns the output and the final state of a recurrent cell that runs over sequences. x is
/// {x_gates, weight, h} or, for LSTM, {x_gates, weight, h, c}. i is {kind of cell, whether to run
/// in reverse}.
inline Tensors sequence(const Ints& i, const Tensors& x) {
  const RecurrentState first{x[2], x.size() > 3 ? x[3] : Tensor()};
  return both(recurrent(recurrence(i[0]), x[0], x[1], {}, first, {.reverse = i[1] != 0}));
}

// ---- margins ----

double distance_from(const Tensor& x, double kink);
double distance_between(const Tensor& a, const Tensor& b);  ///< smallest |a - b|, with broadcasting
double distance_from_halves(const Tensor& x);  ///< smallest distance to a multiple of 1/2
double gap(const Tensor& x, int64_t dim);      ///< smallest distance between two elements along dim
double least(const Tensor& x);

}  // namespace gradus::programs
