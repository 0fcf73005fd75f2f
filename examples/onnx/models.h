#pragma once
// Exports models to ONNX. Each function returns a model's forward pass in evaluation mode as the
// bytes of an ONNX file: standard operators of opset 17, float32, with dynamic batch sizes and text
// lengths. Weights keep their names from the state dict. The comments below give the names of
// inputs and outputs: inputs -> outputs. All functions throw Error, naming the weight or layer, if
// a weight is not float32, a layer has a low-rank update, or the weights exceed 2 GB.

#include <string>

#include "examples/support/digit_net.h"
#include "gradus/models/bert.h"
#include "gradus/models/captioner.h"
#include "gradus/models/clip.h"
#include "gradus/models/cnn_attention.h"
#include "gradus/models/data/images/images.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"

namespace gradus {

/// ids (batch, length) int64 -> logits (batch, length, vocab). There is no key/value cache, so each
/// generated token costs a pass over all tokens before it.
std::string to_onnx(const models::GPT& model);
/// ids and segments (batch, length) int64, mask (batch, length) bool, true for real tokens ->
/// hidden (batch, length, dim), word_logits (batch, length, vocab), next_logits (batch, 2).
std::string to_onnx(const models::Bert& model);
/// ids, segments and mask as for Bert -> logits (batch, classes), or (batch, length, classes) for a
/// classifier of tokens.
std::string to_onnx(const models::BertClassifier& model);
///@{
/// images (batch, channels, image, image) with values from 0 to 1 -> logits (batch, classes) or,
/// without a head, features (batch, feature_size). The graph normalises the images by `stats`,
/// unless `stats` is empty. Throws Error if `stats` is for another number of channels.
std::string to_onnx(const models::ViT& model, const models::ChannelStats& stats = {});
std::string to_onnx(const models::CNNAttention& model, const models::ChannelStats& stats = {});
///@}
/// images (images, channels, image, image), ids (texts, length) int64, and lengths (texts) int64,
/// the numbers of tokens without padding -> image_features (images, shared) and text_features
/// (texts, shared), with rows of norm 1, and similarity (images, texts), scaled as by
/// CLIP::similarity(). `stats` has the same meaning as for ViT.
std::string to_onnx(const models::CLIP& model, const models::ChannelStats& stats = {});
/// Only the encoder: images (batch, channels, image, image) -> annotations (batch, positions,
/// features), and state, the decoder's initial state: (batch, hidden) or, for LSTM, h and c side by
/// side, (batch, 2 hidden). `stats` has the same meaning as for ViT.
std::string to_onnx(const models::Captioner& model, const models::ChannelStats& stats = {});
/// images (batch, height, width) with values from 0 to 1 -> logits (batch, classes).
std::string to_onnx(const DigitNet& model);

}  // namespace gradus
