#pragma once
// Parameters of ours that join several tensors of Hugging Face's, such as queries, keys and values.
// For the library's own use: no public header includes this.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Rows of one of our parameters that are a tensor of Hugging Face's.
struct Part {
  int64_t begin, end;
  bool is_rotary;  ///< its rows are in another order, see HuggingFaceLayer::rotary
};

/// The parts of a parameter with so many rows. Throws Error if they are not those of the layout.
std::vector<Part> parts_of(const HuggingFaceParameter& parameter, int64_t rows,
                           const HeadLayout& layout);

/// The rows (or elements) of each head of x in the order of our files, or in Hugging Face's: ours
/// are a_0 b_0 a_1 b_1 ..., theirs a_0 a_1 ... b_0 b_1 ....
Tensor reordered(const Tensor& x, int64_t head_dim, bool to_ours);

/// Whether two contiguous tensors have the same shape, dtype and elements.
bool has_equal_elements(const Tensor& a, const Tensor& b);

}  // namespace gradus::models::internal
