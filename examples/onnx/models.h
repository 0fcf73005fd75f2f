#pragma once
// Exports models to ONNX. Each function returns the bytes of an ONNX file with the forward pass of
// a model in evaluation mode. The file uses float32 and standard operators of opset 17. Batch sizes
// and text lengths are dynamic. Weights keep their names from the state dict. The comment on each
// function gives the names and shapes of the graph's inputs and outputs. All functions throw Error,
// naming the weight or layer, if a weight is not float32, a layer has a low-rank update, or the
// weights exceed 2 GB.

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

/// Exports a GPT: ids (batch, length) int64 -> logits (batch, length, vocab). The graph has no
/// key/value cache, so generating a token costs a pass over all tokens before it.
std::string to_onnx(const models::GPT& model);
/// Exports a Bert. Inputs: ids and segments (batch, length) int64, and mask (batch, length) bool,
/// true for real tokens and false for padding. Outputs: hidden (batch, length, dim), the output of
/// the last block; word_logits (batch, length, vocab), for masked words; and next_logits (batch,
/// 2), for the prediction whether the second segment follows the first.
std::string to_onnx(const models::Bert& model);
/// Exports a BertClassifier. Inputs: ids and segments (batch, length) int64, and mask (batch,
/// length) bool, true for real tokens. Output: logits (batch, classes) or, for a classifier of
/// tokens, (batch, length, classes).
std::string to_onnx(const models::BertClassifier& model);
///@{
/// Exports an image classifier: images (batch, channels, side, side) with values from 0 to 1 ->
/// logits (batch, classes) or, without a head, features (batch, feature_size). The graph normalises
/// the images by `stats`, unless `stats` is empty. Throws Error if `stats` is for another number of
/// channels.
std::string to_onnx(const models::ViT& model, const models::ChannelStats& stats = {});
std::string to_onnx(const models::CNNAttention& model, const models::ChannelStats& stats = {});
///@}
/// Exports a CLIP, for N images and M texts. Inputs: images (N, channels, side, side) with values
/// from 0 to 1, ids (M, length) int64, and lengths (M) int64, the number of real tokens of each
/// text. Outputs: image_features (N, dim) and text_features (M, dim), the embeddings, with rows of
/// norm 1 and dim = config.shared; and similarity (N, M), the cosine similarities times
/// min(e^logit_scale, 100). The graph normalises the images by `stats`, unless `stats` is empty.
/// Throws Error if `stats` is for another number of channels.
std::string to_onnx(const models::CLIP& model, const models::ChannelStats& stats = {});
/// Exports the encoder of a Captioner, without the decoder: images (batch, channels, side, side)
/// with values from 0 to 1 -> annotations (batch, positions, features) and state, the initial state
/// of the decoder. The state is (batch, hidden) or, for an LSTM, the concatenation of h and c
/// (batch, 2 hidden). The graph normalises the images by `stats`, unless `stats` is empty. Throws
/// Error if `stats` is for another number of channels.
std::string to_onnx(const models::Captioner& model, const models::ChannelStats& stats = {});
/// Exports a DigitNet: images (batch, height, width) with values from 0 to 1 -> logits (batch,
/// classes).
std::string to_onnx(const DigitNet& model);

}  // namespace gradus
