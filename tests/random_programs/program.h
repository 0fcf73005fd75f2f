#pragma once
// Random programs: a program is data, a list of steps, each a leaf or an op of the list in ops.h
// with its arguments and options. It is drawn by generate.h, run by run.h, checked by checks.h,
// shrunk by shrink.h, and printed as C++ and as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::programs {

using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

/// A seeded stream of numbers (SplitMix64), the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Uniform in [low, high], whole.
  int64_t whole(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  /// Uniform in [low, high), a multiple of 2^-10: exact in float32, and short in print.
  double real(double low, double high) {
    return static_cast<double>(static_cast<int64_t>((low + uniform() * (high - low)) * 1024)) /
           1024;
  }
  bool chance(double p) { return uniform() < p; }

 private:
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  uint64_t state_;
};

/// How a leaf lies in memory.
enum class Layout { contiguous, strided, transposed, expanded };

/// An input of the program.
struct Leaf {
  Dtype dtype = float64;  ///< float64 stands for the dtype that the program runs in; int64; bool
  Shape shape = {};
  Reals values = {};  ///< in row-major order
  Layout layout = Layout::contiguous;
  int64_t axis = 0;  ///< if expanded: the axis of stride 0, along which the values are equal
  bool wants_grad = false;
  bool has_grad = false;  ///< has a gradient already, to which backward adds
};

/// The mode that a step runs in.
enum class Island { none, no_grad, grad_again, eval };

/// A value: which output of which step.
struct Ref {
  int step = 0, output = 0;
  bool operator==(const Ref&) const = default;
};

struct Step {
  int op = -1;  ///< index into all_ops(); -1: a leaf
  Leaf leaf;
  std::vector<Ref> args;
  Ints ints;
  Reals reals;
  Island island = Island::none;
  bool hook = false, retain = false;  ///< on the step's first output
};

struct Program {
  uint64_t seed = 0;
  std::vector<Step> steps = {};
  std::vector<Ref> outputs = {};  ///< the loss is the sum of these, each times a constant

  int ops() const;  ///< the number of steps that are no leaves
};

/// The program as a C++ test, which fails as `check` did.
std::string as_test(const Program& program, const std::string& check);
/// The program on one line, for replay_torch.py.
std::string as_json(const Program& program);
std::string as_json(const Reals& numbers);
std::string as_json(const Shape& shape);

}  // namespace gradus::programs
