#pragma once
// An interactive web page that shows attention weights: one self-contained file for a browser.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// The attention weights of one kind of attention, for all layers and heads.
struct AttentionGroup {
  std::string name;                        ///< for example "encoder self-attention"
  std::vector<std::string> queries, keys;  ///< tokens, which may contain any bytes
  Tensor weights;                          ///< (layers, heads, Tq, Tk), each from 0 to 1
};

/// Returns the groups as JSON: [{"name", "queries", "keys", "weights"}]. Weights are in thousandths
/// (null for NaN) and indexed by [layer][head][query * Tk + key]. Throws the errors of
/// attention_page(), but accepts an empty list of groups.
nlohmann::json attention_json(const std::vector<AttentionGroup>& groups);

/// Returns a web page, as HTML, that shows the attention weights of the groups. The reader chooses
/// a group, a layer and a head (or the mean of the heads), and points at a query token to see the
/// weight of each key token. Weights are rounded to three decimals; NaN is shown as NaN. Throws
/// Error if there are no groups, if the weights of a group are empty, not floating or not of rank
/// 4, if the numbers of tokens do not match the shape of the weights, or if a weight lies outside 0
/// to 1 by 0.001 or more.
std::string attention_page(const std::string& title, const std::vector<AttentionGroup>& groups);

/// Writes the result of attention_page() to the file `path`. Throws the errors of attention_page(),
/// and Error if writing fails.
void write_attention_page(const std::string& path, const std::string& title,
                          const std::vector<AttentionGroup>& groups);

/// Returns the weights of sequence `row` of a batch, stacked over layers: (layers, heads, Tq, Tk).
/// `trace` holds the tensors of an AttentionTrace, one (B, heads, Tq, Tk) per layer. Throws Error
/// if there is no layer, if `row` is not from 0 to B - 1, or if heads, Tq or Tk differ between
/// layers.
Tensor stacked_layers(const std::vector<Tensor>& trace, int64_t row = 0);

}  // namespace gradus
