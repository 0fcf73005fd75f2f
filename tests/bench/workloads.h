#pragma once
// What speed is measured on: training steps on random input, in float32.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gradus::bench {

/// A workload made ready: `step` is what is timed.
struct Workload {
  std::function<void()> step;
  int64_t items;        ///< tokens or examples a step
  double weight_bytes;  ///< of generation: what must be read for a token; else 0
};

struct NamedWorkload {
  std::string name;
  std::function<Workload()> make;
};

/// All workloads: mlp, gpt-char, gpt-baby, gpt2-124M, attention-512 ... -16384, generate-124M.
const std::vector<NamedWorkload>& workloads();

}  // namespace gradus::bench
