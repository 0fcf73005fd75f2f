#include "gradus/models/gpt.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/json.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/safetensors.h"
#include "gradus/nn/init.h"

namespace gradus::models {

namespace {
const GPTConfig& checked(const GPTConfig& c) {
  check(c.vocab > 0 && c.context > 0 && c.layers > 0 && c.heads > 0 && c.dim > 0,
        "GPT: expected sizes > 0, got vocab ", c.vocab, ", context ", c.context, ", layers ",
        c.layers, ", heads ", c.heads, ", dim ", c.dim);
  check(c.dim % c.heads == 0, "GPT: heads must divide dim: dim ", c.dim, ", heads ", c.heads);
  check(c.dropout >= 0 && c.dropout < 1, "GPT: expected 0 <= dropout < 1, got ", c.dropout);
  return c;
}

nn::Block make_block(const GPTConfig& c) {
  return nn::Block(c.dim, {.heads = c.heads,
                           .activation = c.activation,
                           .causal = true,
                           .bias = c.bias,
                           .dropout = c.dropout});
}

void initialise(const GPT& model) {
  if (nn::init::Skip::active()) return;
  NoGrad no_grad;
  const double std = 0.02,
               residual_std = std / std::sqrt(2.0 * static_cast<double>(model.config.layers));
  for (const auto& [name, p] : model.named_parameters()) {
    if (name.ends_with(".bias"))
      p.zero_();
    else if (name.ends_with(".proj.weight"))
      p.copy_(nn::init::normal(p.shape(), 0, residual_std));
    else if (p.rank() >= 2)
      p.copy_(nn::init::normal(p.shape(), 0, std));
  }
}
}  // namespace

GPT::GPT(const GPTConfig& c)
    : config(checked(c)),
      wte(child("wte", nn::Embedding(c.vocab, c.dim))),
      wpe(child("wpe", nn::LearnedPositions(c.context, c.dim))),
      dropout(c.dropout),
      blocks(children("blocks", c.layers, [&](int64_t) { return make_block(c); })),
      ln_f(child("ln_f", nn::LayerNorm(c.dim, {.bias = c.bias}))),
      head(child("head",
                 c.tie ? nn::Linear(wte.weight) : nn::Linear(c.dim, c.vocab, {.bias = false}))) {
  initialise(*this);
}

Tensor GPT::embed(const Tensor& ids, int64_t offset) const {
  check(ids.defined() && ids.rank() == 2 && ids.dtype() == int64 && ids.numel() > 0,
        "GPT: expected ids (B, T) of int64, none empty, got ",
        ids.defined() ? ids.shape() : Shape{});
  check(ids.size(1) <= config.context - offset, "GPT: ", offset + ids.size(1),
        " tokens do not fit a context of ", config.context);
  return dropout(wte(ids) + wpe(ids.size(1), offset));
}

Tensor GPT::operator()(const Tensor& ids) const {
  Tensor x = embed(ids, 0);
  for (const nn::Block& block : blocks) x = block(x);
  return head(ln_f(x));
}

Tensor GPT::loss(const Tensor& ids, const Tensor& targets) const {
  check(ids.defined() && targets.defined() && ids.shape() == targets.shape(),
        "GPT: ids and targets must have one shape");
  return cross_entropy((*this)(ids), targets);
}

GPTCache GPT::make_cache(int64_t batch) const {
  GPTCache cache;
  for (const nn::Block& block : blocks)
    cache.layers.push_back(block.attn.make_cache(batch, config.context));
  return cache;
}

Tensor GPT::next_logits(const Tensor& ids, GPTCache& cache) const {
  check(!grad_enabled(), "GPT: gradients do not flow through a cache; use it under NoGrad");
  check(cache.layers.size() == blocks.size(), "GPT: expected a cache of ", blocks.size(),
        " layers, got ", cache.layers.size());
  Tensor x = embed(ids, cache.length());
  for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, cache.layers[i]);
  return head(ln_f(x.select(1, -1)));
}

// ---- files ----

namespace {
constexpr const char* weights_file = "model.safetensors";
constexpr const char* config_file = "config.json";

std::string to_json(const GPTConfig& c) {
  const nlohmann::ordered_json json{
      {"model", "gpt"},       {"vocab", c.vocab},
      {"context", c.context}, {"layers", c.layers},
      {"heads", c.heads},     {"dim", c.dim},
      {"dropout", c.dropout}, {"bias", c.bias},
      {"tie", c.tie},         {"gelu", c.activation == Activation::gelu ? "erf" : "tanh"}};
  return json.dump(2) + '\n';
}

GPTConfig from_json(const std::string& text) {
  const nlohmann::json json = parse_json("the file", text);
  auto size = [&](const char* key) { return json_entry<int64_t>(json, key); };
  const auto model = json_entry<std::string>(json, "model");
  const auto gelu = json_entry<std::string>(json, "gelu");
  check(model == "gpt", "expected \"gpt\" for model, got ", shown(model));
  check(gelu == "erf" || gelu == "tanh", "expected \"erf\" or \"tanh\" for gelu, got ",
        shown(gelu));
  return checked({.vocab = size("vocab"),
                  .context = size("context"),
                  .layers = size("layers"),
                  .heads = size("heads"),
                  .dim = size("dim"),
                  .dropout = json_entry<double>(json, "dropout"),
                  .bias = json_entry<bool>(json, "bias"),
                  .tie = json_entry<bool>(json, "tie"),
                  .activation = gelu == "erf" ? Activation::gelu : Activation::gelu_tanh});
}

// Against the file, before memory is set aside for what a damaged config may ask.
void check_fits(const std::string& path, const GPTConfig& c, const NamedTensors& tensors) {
  auto size = [](const Tensor& t) { return static_cast<double>(t.numel()); };
  double found = 0;
  for (const auto& [name, tensor] : tensors) found += size(tensor);
  const double vocab = static_cast<double>(c.vocab), context = static_cast<double>(c.context);
  const double layers = static_cast<double>(c.layers), dim = static_cast<double>(c.dim);
  const double least = dim * (vocab + context + layers * 12 * dim);
  check(least <= found, path, ": holds ", found, " numbers, fewer than the ", least,
        " that its configuration asks for");
}

// f(); its errors then open with the file's name.
template <class F>
auto naming(const std::filesystem::path& path, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    fail(path.string(), ": ", error.what());
  }
}
}  // namespace

void save_gpt(const std::string& dir, const GPT& model) {
  const std::filesystem::path folder(dir);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(std::filesystem::is_directory(folder, error), "save_gpt: cannot make the folder ", dir);
  save_safetensors((folder / weights_file).string(), model.state_dict());
  write_file_atomically((folder / config_file).string(), to_json(model.config));
}

GPT load_gpt(const std::string& dir) {
  const std::filesystem::path folder(dir);
  const std::string config_path = (folder / config_file).string(), text = read_file(config_path);
  const std::string weights = (folder / weights_file).string();
  const GPTConfig config = naming(config_path, [&] { return from_json(text); });
  const NamedTensors tensors = load_safetensors(weights).tensors;
  check_fits(weights, config, tensors);
  nn::init::Skip skip;
  GPT model(config);
  naming(weights, [&] {
    if (!tensors.empty()) model.to(tensors.front().second.dtype());
    model.load_state_dict(tensors);
  });
  return model;
}

}  // namespace gradus::models
