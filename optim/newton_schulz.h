#pragma once
// The Newton-Schulz iteration: nearly orthogonal matrices by products alone, for Muon.

#include "gradus/core/runtime/threads.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::optim {

/// Approximately U V^T of each matrix G = U S V^T: the nearest matrix whose rows or columns are
/// orthonormal. Singular values end between about 0.7 and 1.2, but those of G below a thousandth of
/// its Frobenius norm |G| end smaller. The iteration, of G^T if G has more rows than columns:
///   X = G / (|G| + 1e-7), then `steps` times
///   A = X X^T,  X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
/// Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". `matrices`
/// (..., rows, columns) is of float32 or float64. The result is contiguous and records no gradient.
/// A matrix with a NaN or an infinity becomes NaN.
Tensor newton_schulz(const Tensor& matrices, int64_t steps = 5);

namespace internal {

/// Replaces `x`, a contiguous matrix, by the result of `steps` steps, split over the threads unless
/// called inside a parallel loop. The bits do not depend on the number of threads.
template <class T>
void newton_schulz(int64_t rows, int64_t cols, int64_t steps, T* x);

/// Calls body(i) for `count` matrices: one thread per matrix or, if there are fewer matrices than
/// threads, one matrix after another, each split over the threads.
template <class Body>
void for_each_matrix(int64_t count, const Body& body) {
  if (count >= num_threads()) return parallel_for_each(count, 1, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace internal

}  // namespace gradus::optim
