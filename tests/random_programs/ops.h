#pragma once
// The ops of random programs. An Op tells how to choose arguments for the op and how to call it.

#include <functional>

#include "gradus/gradus.h"
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// The values that an argument of an op may have. positive: above 0.12. unit: between 0.12 and
/// 0.98. nonzero: more than 0.01 from 0. distinct: elements more than 0.01 apart.
enum class Domain { any, positive, unit, nonzero, distinct };

/// The sizes of random axes. If a random shape has more than 140,000 elements, Picker::shape()
/// repeatedly halves all its axes, rounding up, until it is small enough.
enum class Sizes {
  small,  ///< at most 4
  mixed,  ///< a quarter of the sizes are from 30 to 90, the others at most 4
  /// For programs whose Program::split is true. Until an argument of the op has an axis of 100 or
  /// more, half of the sizes are from 100 to 400 and the others at most 4. Afterwards all are at
  /// most 4.
  split
};

/// Draws the arguments and options of a new step. Arguments are existing values or new leaves.
class Picker {
 public:
  Picker(Random& random, Program& program, std::vector<Tensors>& values, Sizes sizes);

  /// Adds a float64 argument with a rank from `low` to `high` and returns its shape.
  Shape any(int low = 0, int high = 4, Domain domain = Domain::any);
  /// Adds a float64 argument of this shape.
  void like(const Shape& shape, Domain domain = Domain::any);
  /// Adds a float64 argument with a shape that broadcasts with `shape`.
  void beside(const Shape& shape, Domain domain = Domain::any);
  /// Adds a bool argument of this shape.
  void mask(const Shape& shape);
  /// Adds an int64 argument with values in [0, n).
  void indices(const Shape& shape, int64_t n);
  /// Adds a bool argument of any shape and returns its shape.
  Shape some_bool();
  /// Adds a float64 argument of this shape that does not require grad. If `signs` is true, each of
  /// its values is -1 or 1.
  void constant(const Shape& shape, bool signs = false);

  void option(int64_t value) { step.ints.push_back(value); }
  void real(double low, double high) { step.reals.push_back(random.real(low, high)); }
  /// Draws an axis of a tensor of this rank (>= 1), adds it as an option and returns it. The axis
  /// is in [-rank, rank).
  int64_t axis(int rank);
  int64_t size();  ///< draws the size of an axis, at least 1
  Shape shape(int low, int high);
  Shape shape_of(int arg) const;

  Random& random;
  Step step;
  bool failed = false;  ///< true if no valid arguments were found; the step is then discarded

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
/// Adds an argument of rank >= 1, and one of its axes as an option.
inline const Propose one_axis = [](Picker& p) { p.axis(p.any(1).size()); };
using Apply = Tensors (*)(const Tensors& x, const Ints& i, const Reals& r);
/// A function that returns how far the arguments of an op are from points where the op is too steep
/// or not smooth. generate() rejects a step if this margin is below 0.004.
using Margin = double (*)(const Tensors& x, const Ints& i, const Reals& r);

struct Op {
  std::string name;
  const char* text;  ///< the call as C++ source code
  Apply apply;
  Propose propose;
  Margin margin = nullptr;
  bool detaches = false;  ///< true if no gradient flows through the op
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

/// Initialises Op::text and Op::apply from a C++ expression, the call of the op.
#define GRADUS_CALL(...)                                                         \
  .text = #__VA_ARGS__,                                                          \
  .apply = []([[maybe_unused]] const Tensors& x, [[maybe_unused]] const Ints& i, \
              [[maybe_unused]] const Reals& r) -> Tensors { return Tensors{__VA_ARGS__}; }
/// Initialises Op::margin from a C++ expression.
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
/// Returns the tensors, detached from the graph. NoGrad alone does not detach them: an op that has
/// nothing to change returns its argument itself, which may belong to the graph.
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
/// Returns the state {h, c} after min(steps, 8) steps of a recurrent cell, or {h, h} if the cell
/// has no c. x contains x_gates (B, G H), the recurrent weight (G H, H), the initial h (B, H) and,
/// for LSTM, the initial c (B, H). G is the cell's number of gates and H its hidden size. All steps
/// use the same x_gates.
inline Tensors cells(int64_t cell, int64_t steps, const Tensors& x) {
  RecurrentState state{x[2], x.size() > 3 ? x[3] : x[2]};
  for (int64_t t = 0; t < std::min<int64_t>(steps, 8); ++t) {
    const RecurrentState next =
        core::recurrent_cell(recurrence(cell), x[0], linear(state.h, x[1]), state);
    state = {next.h, next.c.defined() ? next.c : next.h};
  }
  return {state.h, state.c};
}

/// Returns attention options: causal if i[0] is not 0, and with the mask x[3] if there is one.
/// x[0], x[1] and x[2] are q, k and v.
inline AttentionOptions attention_options(const Ints& i, const Tensors& x) {
  AttentionOptions options{.causal = i[0] != 0};
  if (x.size() > 3) options.mask = x[3];
  return options;
}
/// Runs a recurrent layer over sequences and returns its output and final state. x contains the
/// input's contribution to the gates at each step (x_gates of recurrent()), the recurrent weight,
/// the initial h and, for LSTM, the initial c. i[0] selects the kind of cell. If i[1] is not 0, the
/// layer runs in reverse.
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
