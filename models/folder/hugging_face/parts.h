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

/// Returns x with the rows (or elements) of each head in our order, a_0 b_0 a_1 b_1 ..., if to_ours
/// is true, and in Hugging Face's order, a_0 a_1 ... b_0 b_1 ..., if it is false. a_i and b_i are
/// the features that rotate together.
Tensor reordered(const Tensor& x, int64_t head_dim, bool to_ours);

/// Returns whether two contiguous tensors have the same shape and dtype, and elements that are
/// equal by ==.
bool has_equal_elements(const Tensor& a, const Tensor& b);

}  // namespace gradus::models::internal
