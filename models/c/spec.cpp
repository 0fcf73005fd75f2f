// Layers and optimisers from their descriptions.

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "gradus/models/c/handles.h"
#include "gradus/nn/activations.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/sequential.h"
#include "gradus/optim/adaptive.h"
#include "gradus/optim/muon.h"

namespace gradus::models::internal {

namespace {
double to_number(const char* op, const std::string& text, std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  core::check(error == std::errc() && end == word.data() + word.size() && std::isfinite(value), op,
              ": expected a number, got \"", word, "\" in \"", text, '"');
  return value;
}
}  // namespace

Spec::Spec(const char* op, const std::string& text) : op_(op), text_(text) {
  std::istringstream words(text);
  words >> name_;
  core::check(!name_.empty(), op_, ": expected a name, got \"", text_, '"');
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      numbers_.push_back(to_number(op_, text_, word));
    else
      options_.emplace_back(word.substr(0, equals),
                            to_number(op_, text_, std::string_view(word).substr(equals + 1)));
  }
}

void Spec::expect(size_t count) const {
  core::check(numbers_.size() == count, op_, ": ", name_, ": expected ", count, " numbers, got ",
              numbers_.size(), " in \"", text_, '"');
}

int64_t Spec::whole(double value) const {
  core::check(value == std::trunc(value) && std::abs(value) <= 0x1p53, op_, ": ", name_,
              ": expected an integer, got ", value, " in \"", text_, '"');
  return static_cast<int64_t>(value);
}
int64_t Spec::size(size_t i) const { return whole(numbers_[i]); }

void Spec::read(const char* option, double& value) {
  for (size_t i = 0; i < options_.size(); ++i)
    if (options_[i].first == option) {
      value = options_[i].second;
      options_.erase(options_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
}
void Spec::read(const char* option, int64_t& value) {
  double number = std::numeric_limits<double>::quiet_NaN();
  read(option, number);
  if (!std::isnan(number)) value = whole(number);
}
void Spec::read(const char* option, bool& value) {
  int64_t number = value ? 1 : 0;
  read(option, number);
  core::check(number == 0 || number == 1, op_, ": ", name_, ": expected ", option, "=0 or 1, got ",
              number);
  value = number == 1;
}

void Spec::check_used() const {
  core::check(options_.empty(), op_, ": ", name_,
              ": unknown option or given twice: ", options_.empty() ? "" : options_[0].first,
              " in \"", text_, '"');
}

namespace {

using Layer = std::function<Tensor(const Tensor&)>;

/// The same as nn::Sequential, for layers that are described by a text.
class Layers : public nn::Module {
 public:
  explicit Layers(const std::string& text) {
    core::check(!text.empty(), "gradus_sequential: expected layers, got \"\"");
    std::istringstream parts(text + ',');  // or getline would not see an empty last part
    for (std::string part; std::getline(parts, part, ',');) {
      Spec spec("gradus_sequential", part);
      Layer layer = make(spec);
      spec.check_used();
      layers_.push_back(std::move(layer));
    }
  }
  Tensor operator()(Tensor x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x;
  }

 private:
  template <class M>
  Layer add(M layer) {
    child(std::to_string(layers_.size()), layer);
    return layer;
  }

  Layer make(Spec& spec) {
    for (const auto& maker :
         {&Layers::make_plain, &Layers::make_linear, &Layers::make_norm, &Layers::make_image_layer})
      if (Layer layer = (this->*maker)(spec)) return layer;
    core::fail(
        "gradus_sequential: expected linear, embedding, conv2d, layer_norm, rms_norm, batch_norm, "
        "dropout, max_pool2d, avg_pool2d, relu, gelu, silu, tanh, sigmoid or flatten, got \"",
        spec.name(), '"');
  }

  Layer make_plain(Spec& spec) {
    static const std::vector<std::pair<std::string, Layer>> plain{
        {"relu", nn::ReLU()}, {"gelu", nn::GELU()},       {"silu", nn::SiLU()},
        {"tanh", nn::Tanh()}, {"sigmoid", nn::Sigmoid()}, {"flatten", nn::Flatten()}};
    for (const auto& [name, layer] : plain) {
      if (name != spec.name()) continue;
      spec.expect(0);
      return layer;
    }
    if (spec.name() != "dropout") return {};
    spec.expect(1);
    return nn::Dropout(spec.number(0));
  }

  Layer make_linear(Spec& spec) {
    if (spec.name() != "linear" && spec.name() != "embedding") return {};
    spec.expect(2);
    if (spec.name() == "embedding") return add(nn::Embedding(spec.size(0), spec.size(1)));
    nn::LinearOptions options;
    spec.read("bias", options.bias);
    spec.read("hidden", options.hidden);
    return add(nn::Linear(spec.size(0), spec.size(1), options));
  }

  Layer make_norm(Spec& spec) {
    const std::string& name = spec.name();
    if (name != "layer_norm" && name != "rms_norm" && name != "batch_norm") return {};
    spec.expect(1);
    if (name == "batch_norm") return add(nn::BatchNorm(spec.size(0)));
    if (name == "rms_norm") {
      double eps = 1e-6;
      spec.read("eps", eps);
      return add(nn::RMSNorm(spec.size(0), eps));
    }
    nn::LayerNormOptions options;
    spec.read("eps", options.eps);
    spec.read("bias", options.bias);
    return add(nn::LayerNorm(spec.size(0), options));
  }

  Layer make_image_layer(Spec& spec) {
    if (spec.name() == "conv2d") return make_convolution(spec);
    if (spec.name() == "max_pool2d") return make_pool<nn::MaxPool2d, MaxPool2dOptions>(spec);
    if (spec.name() == "avg_pool2d") return make_pool<nn::AvgPool2d, AvgPool2dOptions>(spec);
    return {};
  }

  Layer make_convolution(Spec& spec) {
    spec.expect(3);
    int64_t stride = 1, padding = 0, dilation = 1;
    nn::Conv2dLayerOptions options;
    spec.read("stride", stride);
    spec.read("padding", padding);
    spec.read("dilation", dilation);
    spec.read("groups", options.groups);
    spec.read("bias", options.bias);
    spec.read("hidden", options.hidden);
    options.stride = stride;
    options.padding = padding;
    options.dilation = dilation;
    return add(nn::Conv2d(spec.size(0), spec.size(1), spec.size(2), options));
  }

  template <class Pool, class Options>
  static Layer make_pool(Spec& spec) {
    spec.expect(1);
    int64_t stride = spec.size(0), padding = 0;
    spec.read("stride", stride);
    spec.read("padding", padding);
    Options options;
    options.stride = stride;
    options.padding = padding;
    return Pool(spec.size(0), options);
  }

  std::vector<Layer> layers_;
};

template <class Options>
Options adam_options(Spec& spec) {
  Options options;
  spec.read("lr", options.lr);
  spec.read("beta1", options.beta1);
  spec.read("beta2", options.beta2);
  spec.read("eps", options.eps);
  spec.read("weight_decay", options.weight_decay);
  spec.check_used();
  return options;
}

std::unique_ptr<optim::Optimizer> make_sgd(Spec& spec, const nn::Module& module) {
  optim::SGDOptions options;
  spec.read("lr", options.lr);
  spec.read("momentum", options.momentum);
  spec.read("nesterov", options.nesterov);
  spec.read("weight_decay", options.weight_decay);
  spec.check_used();
  return std::make_unique<optim::SGD>(module.parameters(), options);
}

std::unique_ptr<optim::Optimizer> make_lion(Spec& spec, const nn::Module& module) {
  optim::LionOptions options;
  spec.read("lr", options.lr);
  spec.read("beta1", options.beta1);
  spec.read("beta2", options.beta2);
  spec.read("weight_decay", options.weight_decay);
  spec.check_used();
  return std::make_unique<optim::Lion>(module.parameters(), options);
}

std::unique_ptr<optim::Optimizer> make_muon(Spec& spec, const nn::Module& module) {
  optim::MuonAndAdamWOptions options;
  spec.read("lr", options.muon.lr);
  spec.read("momentum", options.muon.momentum);
  spec.read("weight_decay", options.muon.weight_decay);
  spec.read("adamw_lr", options.adamw.lr);
  spec.check_used();
  return optim::muon_and_adamw(module.parameters(), module.hidden_matrices(), options);
}

}  // namespace

gradus_module make_sequential(const char* layers) {
  const auto module = std::make_shared<Layers>(layers);
  return {
      module, [module](const Tensor& x) { return (*module)(x); }, {}, module->named_parameters()};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const nn::Module& module, const char* rule) {
  Spec spec("gradus_optimizer_new", rule);
  spec.expect(0);
  if (spec.name() == "sgd") return make_sgd(spec, module);
  if (spec.name() == "lion") return make_lion(spec, module);
  if (spec.name() == "muon") return make_muon(spec, module);
  if (spec.name() == "adam")
    return std::make_unique<optim::Adam>(module.parameters(),
                                         adam_options<optim::AdamOptions>(spec));
  if (spec.name() == "adamw")
    return std::make_unique<optim::AdamW>(module.parameters(),
                                          adam_options<optim::AdamWOptions>(spec));
  core::fail("gradus_optimizer_new: expected sgd, adam, adamw, lion or muon, got \"", spec.name(),
             '"');
}

}  // namespace gradus::models::internal
