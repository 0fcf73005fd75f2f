#pragma once
// An interactive web page of attention weights: one self-contained file for a browser.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Attention weights of one kind of attention: all layers and heads.
struct AttentionGroup {
  std::string name;                        ///< "encoder self-attention", "cross-attention", ...
  std::vector<std::string> queries, keys;  ///< tokens, of any bytes
  Tensor weights;                          ///< (layers, heads, Tq, Tk), each from 0 to 1
};

/// The groups as JSON: [{"name", "queries", "keys", "weights"}], where the weights are in
/// thousandths, as [layer][head][query * keys + key]. Throws Error as attention_page() does.
nlohmann::json attention_json(const std::vector<AttentionGroup>& groups);

/// Returns the page. The reader picks a group, layer and head and points at a query token to see
/// the weight of each key token. Weights are rounded to three digits; NaN is shown as NaN. Throws
/// Error if there are no groups, if token counts do not match the weights' shape, or if a weight is
/// outside 0 to 1.
std::string attention_page(const std::string& title, const std::vector<AttentionGroup>& groups);

/// Writes the page to a file. Throws Error if that fails.
void write_attention_page(const std::string& path, const std::string& title,
                          const std::vector<AttentionGroup>& groups);

/// Stacks the weights of sequence `row` of a batch, from the tensors of an AttentionTrace, one (B,
/// heads, Tq, Tk) per layer, into (layers, heads, Tq, Tk). Throws Error if their shapes differ.
Tensor stacked_layers(const std::vector<Tensor>& trace, int64_t row = 0);

}  // namespace gradus
