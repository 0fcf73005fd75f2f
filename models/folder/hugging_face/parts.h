#pragma once
// Divides a parameter of our models into the tensors that Hugging Face's files store instead, for
// example one each for queries, keys and values, and reorders their features. Internal: no public
// header includes this file.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Rows `begin` to `end` - 1 of one of our parameters. They form one tensor in Hugging Face's
/// files.
struct Part {
  int64_t begin, end;
  bool is_rotary;  ///< whether Hugging Face's order of rows differs, see HuggingFaceLayer::rotary
};

/// Divides a parameter of `rows` rows into parts, one for each of Hugging Face's tensors. Throws
/// Error if `rows` does not fit the layout.
std::vector<Part> parts_of(const HuggingFaceParameter& parameter, int64_t rows,
                           const HeadLayout& layout);

/// Returns x with the rows (if x is a vector, the elements) of each head in another order: ours if
/// to_ours is true, otherwise Hugging Face's. If the features a_i and b_i of a head rotate
/// together, our order is a_0 b_0 a_1 b_1 and so on. Hugging Face's is first all a_i, then all b_i.
Tensor reordered(const Tensor& x, int64_t head_dim, bool to_ours);

}  // namespace gradus::models::internal
