#pragma once
// Random programs. A program is data: a list of steps, each a leaf or an op from the list in ops.h
// with its arguments and options. generate.h makes programs, run.h runs them, checks.h checks them,
// and shrink.h shrinks them. A program can be printed as C++ and as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::programs {

using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

/// A seeded stream of random numbers (SplitMix64) that is the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Returns a whole number, uniform in [low, high].
  int64_t whole(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  /// Returns a number drawn uniformly from [low, high), then rounded towards 0 to a multiple of
  /// 2^-10, so that it is exact in float32 and prints with few digits. The rounding may move it out
  /// of [low, high) by less than 2^-10.
  double real(double low, double high) {
    return static_cast<double>(static_cast<int64_t>((low + uniform() * (high - low)) * 1024)) /
           1024;
  }
  bool chance(double p) { return uniform() < p; }

 private:
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  uint64_t state_;
};

/// The memory layout of a leaf.
enum class Layout { contiguous, strided, transposed, expanded };

/// An input of a program.
struct Leaf {
  Dtype dtype = float64;  ///< float64 stands for the dtype in which the program runs
  Shape shape = {};
  Reals values = {};  ///< in row-major order
  Layout layout = Layout::contiguous;
  int64_t axis = 0;  ///< if expanded: the axis with stride 0, along which values are equal
  bool wants_grad = false;
  bool has_grad = false;  ///< whether .grad exists before backward, which then adds to it
};

/// The mode that a step sets for itself. none: no mode. no_grad: gradients are off. grad_again:
/// gradients are turned off, then on again in an inner scope. eval: evaluation mode.
enum class Island { none, no_grad, grad_again, eval };

/// Refers to a value of a program: output number `output` of step number `step`, both from 0.
struct Ref {
  int step = 0, output = 0;
  bool operator==(const Ref&) const = default;
};

struct Step {
  int op = -1;  ///< index into all_ops(); -1 for a leaf
  Leaf leaf;
  std::vector<Ref> args;
  Ints ints;
  Reals reals;
  Island island = Island::none;
  /// hook: the step's first output has a gradient hook. retain: its gradient is kept with
  /// retain_grad(). Both are ignored if the output does not require grad.
  bool hook = false, retain = false;
};

struct Program {
  uint64_t seed = 0;
  bool split = false;  ///< whether tensors may be so large that parallel loops are split
  std::vector<Step> steps = {};
  /// The values from which the loss is computed. The loss is a weighted sum of their elements, with
  /// random weights that are the same in each run. Values that do not require grad are left out.
  std::vector<Ref> outputs = {};

  int ops() const;  ///< number of steps that are not leaves
};

/// Returns the C++ code of a test case that runs the program forward and backward, without
/// assertions. `check` is the name of the check that fails; it appears in the test's name.
std::string as_test(const Program& program, const std::string& check);
/// Returns the program as one line of JSON, for replay_torch.py.
std::string as_json(const Program& program);
std::string as_json(const Reals& numbers);
std::string as_json(const Shape& shape);

}  // namespace gradus::programs
