#include "gradus/core/internal.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

GPTDecoder GPT::decoder(int64_t rows) const& { return GPTDecoder(*this, rows); }

GPTDecoder::GPTDecoder(const GPT& model, int64_t rows) : model_(&model) {
  for (const nn::Block& block : model.blocks)
    layers_.push_back(block.attn.make_cache(rows, capacity()));
}

const std::vector<int64_t>& GPTDecoder::lengths() const {
  check(!layers_.empty(), "GPT: this decoder was moved from");
  return layers_.front().lengths();
}

Tensor GPTDecoder::next_logits(const Tensor& ids) {
  check(!grad_enabled(), "GPT: gradients do not flow through a cache; use it under NoGrad");
  check(ids.rank() == 2 && ids.size(0) == std::ssize(lengths()), "GPT: expected ids of ",
        lengths().size(), " rows, got ", ids.shape());
  const bool uneven = layers_.front().uneven();
  check(!uneven || ids.size(1) == 1, "GPT: expected one token per sequence, as their lengths ",
        "differ, got ids ", ids.shape());
  const Tensor positions = uneven ? from_data(lengths(), {ids.size(0), 1}) : Tensor();
  const Tensor x =
      model_->apply_blocks(model_->embed(ids, capacity() - room(), positions), {}, &layers_);
  return model_->logits(x.select(1, -1), ids.select(1, -1));
}

void GPTDecoder::reorder(const Tensor& rows) {
  for (nn::KeyValueCache& layer : layers_) layer.reorder(rows);
}

void GPTDecoder::add_row(const GPTDecoder& other) {
  check(other.model_ == model_, "GPT: expected a decoder of the same model");
  check(!layers_.empty() && !other.layers_.empty(), "GPT: a decoder was moved from");
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i].add_row(other.layers_[i]);
}

void GPTDecoder::remove_row(int64_t row) {
  for (nn::KeyValueCache& layer : layers_) layer.remove_row(row);
}

void GPTDecoder::clear() {
  for (nn::KeyValueCache& layer : layers_) layer.clear();
}

}  // namespace gradus::models
