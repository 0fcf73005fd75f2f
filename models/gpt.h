#pragma once
// GPT: a decoder-only transformer language model. Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners".

#include "gradus/core/ops/activation.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

struct GPTConfig {
  int64_t vocab = 0;     ///< how many tokens there are; must be given
  int64_t context = 64;  ///< the most tokens the model can see
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t dim = 128;
  double dropout = 0;  ///< of the embedding, the attention weights and what each layer adds
  bool bias = false;   ///< in linear layers and norms
  bool tie = true;     ///< whether the output layer's weight is the token embedding's
  Activation activation = Activation::gelu;  ///< of the feed-forward layers
};

/// The keys and values of all layers.
struct GPTCache {
  std::vector<nn::KeyValueCache> layers;
  int64_t length() const { return first().length(); }
  int64_t capacity() const { return first().capacity(); }
  void clear() {
    for (nn::KeyValueCache& layer : layers) layer.clear();
  }

 private:
  const nn::KeyValueCache& first() const {
    core::check(!layers.empty(), "GPTCache: it has no layers; GPT::make_cache makes one that has");
    return layers.front();
  }
};

/// Token and learned position embeddings, pre-norm blocks, a last norm, and a linear layer to
/// logits. Initialised as GPT-2: normal with standard deviation 0.02, the layers that add to the
/// residual stream with 0.02 / sqrt(2 layers), biases 0.
struct GPT : nn::Module {
  const GPTConfig config;
  nn::Embedding wte;
  nn::LearnedPositions wpe;
  nn::Dropout dropout;
  std::vector<nn::Block> blocks;
  nn::LayerNorm ln_f;
  nn::Linear head;  ///< without bias
  explicit GPT(const GPTConfig& config);

  /// Logits of each position's next token: ids (B, T) int64 -> (B, T, vocab), T <= context.
  Tensor operator()(const Tensor& ids) const;
  /// The mean cross entropy of the next tokens `targets` (B, T).
  Tensor loss(const Tensor& ids, const Tensor& targets) const;

  /// An empty cache for `batch` sequences of up to `context` tokens.
  GPTCache make_cache(int64_t batch = 1) const;
  /// Reads the next tokens ids (B, T) of the sequences in the cache, appends them to it and returns
  /// the logits of the token after the last: (B, vocab), what operator() gives for the whole
  /// sequences' last position. Under NoGrad only. Throws Error if the cache cannot take T more.
  Tensor next_logits(const Tensor& ids, GPTCache& cache) const;

 private:
  Tensor embed(const Tensor& ids, int64_t offset) const;
};

/// Writes DIR/model.safetensors and DIR/config.json, making DIR if need be.
void save_gpt(const std::string& dir, const GPT& model);
/// Reads them. Throws Error naming the file if it is missing, damaged, or does not fit the other.
GPT load_gpt(const std::string& dir);

}  // namespace gradus::models
