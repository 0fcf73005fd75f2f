#pragma once
// Products and sums of tensors in Einstein's notation.

#include <string>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// The product of the tensors, summed over the axes whose letters are not in the output, as
/// torch.einsum. The equation names each axis by a letter: "ij,jk->ik" is a matrix product,
/// "bij,bjk->bik" a batch of them, "ij->" a sum, "ij->ji" a transpose.
/// - A letter that one tensor has twice selects a diagonal: "ii->" is the trace.
/// - Without "->" the output has the letters that occur once, in alphabetical order (capitals
///   first).
/// - "..." stands for any number of axes. They broadcast, come first in an output that is not given,
///   and are summed over if a given output lacks them.
/// - An axis of size 1 broadcasts to the other sizes of its letter; spaces are ignored.
/// Tensors are multiplied from left to right, two at a time, as batches of matrices; an intermediate
/// product has at most max_rank axes. All tensors have the same dtype, a floating one if there are
/// several. Throws Error if the equation is malformed or does not fit the shapes.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors);

}  // namespace gradus
