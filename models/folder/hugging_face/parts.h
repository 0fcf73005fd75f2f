#pragma once
// Divides parameters of ours that join several tensors of Hugging Face, for example queries, keys
// and values, and reorders their features. Internal: no public header includes this file.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Rows of one of our parameters that form one tensor of Hugging Face.
struct Part {
  int64_t begin, end;
  bool is_rotary;  ///< ordered differently in Hugging Face's tensor, see HuggingFaceLayer::rotary
};

/// Returns the parts of a parameter with this number of rows. Throws Error if `rows` does not fit
/// the layout.
std::vector<Part> parts_of(const HuggingFaceParameter& parameter, int64_t rows,
                           const HeadLayout& layout);

/// Returns x with the rows (or elements) of each head in another order. Features a_i and b_i of a
/// head rotate together. Our order is a_0 b_0 a_1 b_1 and so on; Hugging Face's is first all a_i,
/// then all b_i. Converts to our order if to_ours is true, else to Hugging Face's.
Tensor reordered(const Tensor& x, int64_t head_dim, bool to_ours);

/// Returns whether two contiguous tensors have the same shape and dtype, and elements that are
/// equal by ==.
bool has_equal_elements(const Tensor& a, const Tensor& b);

}  // namespace gradus::models::internal
