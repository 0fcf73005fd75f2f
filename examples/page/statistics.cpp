#include "examples/page/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "examples/pictures/html.h"

namespace gradus {

namespace {
constexpr int64_t most_elements = 4096;
constexpr size_t most_layers = 200;

/// Evenly spaced elements of x, a contiguous float32 tensor.
std::vector<float> sampled(const Tensor& x) {
  const int64_t n = x.numel(), stride = (n + most_elements - 1) / most_elements;
  std::vector<float> some;
  some.reserve(static_cast<size_t>(most_elements));
  const float* const data = x.data<float>();
  for (int64_t i = 0; i < n; i += stride) some.push_back(data[i]);
  return some;
}

bool can_be_read(const Tensor& x) {
  return x.defined() && x.dtype() == float32 && x.is_contiguous() && x.numel() > 0;
}

double norm_of(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}
}  // namespace

std::vector<int64_t> magnitudes(const Tensor& x) {
  std::vector<int64_t> counts(32);
  if (!can_be_read(x)) return counts;
  for (const float value : sampled(x)) {
    constexpr int bias = 127, lowest = -25;  // of the exponent; the first bin's power of two
    const int exponent = static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 255) - bias;
    ++counts[static_cast<size_t>(std::clamp(exponent - lowest, 0, 31))];
  }
  return counts;
}

LayerStatistics::LayerStatistics(const nn::Module& model) {
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.rank() >= 2 && can_be_read(parameter) && layers_.size() < most_layers)
      layers_.push_back({name, parameter, sampled(parameter)});
}

std::string LayerStatistics::take(const NamedTensors& activations) const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, weights, before] : layers_) {
    std::vector<float> update = sampled(weights);
    for (size_t i = 0; i < update.size(); ++i) update[i] -= before[i];
    all.push_back({{"name", name},
                   {"weights", magnitudes(weights)},
                   {"gradients", magnitudes(weights.grad())},
                   {"ratio", norm_of(update) / norm_of(before)}});
  }
  for (const auto& [name, x] : activations)
    all.push_back({{"name", name}, {"activations", magnitudes(x)}});
  return ascii_json(all);
}

}  // namespace gradus
