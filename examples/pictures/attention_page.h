#pragma once
// A web page to look at attention with: one file without anything from elsewhere, to be opened in a
// browser.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// What queries looked at: all layers and heads of one kind of attention.
struct AttentionGroup {
  std::string name;                        ///< "encoder self-attention", "cross-attention", ...
  std::vector<std::string> queries, keys;  ///< tokens: any bytes
  Tensor weights;                          ///< (layers, heads, Tq, Tk), each from 0 to 1
};

/// The page: a person picks group, layer and head, points at a query token and sees how much each
/// key token weighs. Weights are rounded to three digits; NaN is shown as such. Throws Error if
/// there are no groups, if tokens are not as many as queries and keys, or on a weight beyond 0 to 1.
std::string attention_page(const std::string& title, const std::vector<AttentionGroup>& groups);

/// The same, put into a file. Throws Error if it can't be written.
void write_attention_page(const std::string& path, const std::string& title,
                          const std::vector<AttentionGroup>& groups);

/// What AttentionTrace has kept of one sequence, a tensor (B, H, Tq, Tk) a layer, as a group's
/// weights: batch entry `row` of each, (layers, H, Tq, Tk). Throws Error if their shapes differ.
Tensor stacked_layers(const std::vector<Tensor>& trace, int64_t row = 0);

}  // namespace gradus
