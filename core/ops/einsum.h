#pragma once
// Products and sums of tensors in Einstein's notation.

#include <string>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns the product of the tensors, summed over the axes whose letters are not in the output, as
/// torch.einsum does. The equation has a letter per axis of each tensor and, after "->", of the
/// output: "ij,jk->ik" is a matrix product, "bij,bjk->bik" a batch of matrix products, "ij->" a
/// sum, "ij->ji" a transpose.
/// - A letter that occurs twice for one tensor selects a diagonal: "ii->" is the trace.
/// - Without "->", the output has the letters that occur once, in alphabetical order (capitals
///   first).
/// - "..." stands for any number of axes, which broadcast. Without "->", they are the first axes of
///   the output. With "->", they are summed over if the output has no "...".
/// - An axis of size 1 broadcasts to the size that its letter has in another tensor. Spaces are
///   ignored.
/// Multiplies the tensors from left to right, two at a time: by batched matrix products where axes
/// are summed over, else elementwise. Throws Error if the equation is malformed, or if the number
/// of tensors or their shapes do not fit it. Also throws if a product has more than max_rank axes,
/// if the dtypes differ, or if there are several tensors and their dtype is not floating.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors);

}  // namespace gradus
