#pragma once
// The Newton-Schulz iteration: computes nearly orthogonal matrices by matrix products only, for
// Muon.

#include "gradus/core/runtime/threads.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::optim {

/// Returns approximately U V^T for each matrix G = U S V^T: the nearest matrix with orthonormal
/// rows or columns. `matrices` (..., rows, columns) is float32 or float64. The result is contiguous
/// and not differentiable. The iteration, which runs on G^T if G has more rows than columns, is
///   X = G / (|G| + 1e-7), then `steps` times
///   A = X X^T,  X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
/// where |G| is the Frobenius norm. After 5 steps the result has singular values between about 0.7
/// and 1.2, or smaller ones where a singular value of G is below 0.0015 |G|. A matrix with a NaN or
/// an infinity becomes NaN. Throws Error unless `steps` is from 1 to 100. Jordan et al. 2024,
/// "Muon: An optimizer for hidden layers in neural networks".
Tensor newton_schulz(const Tensor& matrices, int64_t steps = 5);

namespace internal {

/// Options of internal::newton_schulz(). MuonOptions describes them in detail.
struct NewtonSchulz {
  int64_t steps = 5;           ///< number of steps
  bool polar_express = false;  ///< use the Polar Express polynomials (Amsel et al. 2025)
  bool rounded = false;        ///< round the operands of most float32 products to bfloat16
};

/// Orthogonalises the contiguous matrix `x` (rows, cols) by the Newton-Schulz iteration. Overwrites
/// x and the buffer `y`, which has the size of x, and returns a factor. The orthogonalised matrix
/// is factor * x + y, with the new values of x and y. `squares` is the sum of the squared elements
/// of the old x. Uses all threads or, inside a parallel loop, only the calling thread. The bits of
/// the result do not depend on the number of threads.
template <class T>
T newton_schulz(int64_t rows, int64_t cols, const NewtonSchulz& options, double squares, T* x,
                T* y);

/// Calls body(i), which computes matrix i, for i in [0, count). If there are at least as many
/// matrices as threads, the calls run in parallel. Otherwise they run one after another, so that
/// the loops inside body can use all threads.
template <class Body>
void for_each_matrix(int64_t count, const Body& body) {
  if (count >= num_threads()) return parallel_for_each(count, 1, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace internal

}  // namespace gradus::optim
