#include "gradus/core/ops/additive.h"

#include "gradus/core/kernels/additive.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"

namespace gradus {

namespace {

Tensor composed_scores(const Tensor& q, const Tensor& k, const Tensor& v) {
  return sum(v * tanh(q.unsqueeze(2) + k.unsqueeze(1)), -1);  // (B, Tq, Tk, H) summed over H
}

}  // namespace

// s_ij = sum_h v_h t, t = tanh(q_ih + k_jh)    dv_h = sum_ij ds_ij t
//   dq_ih = sum_j ds_ij v_h (1 - t^2)    dk_jh = sum_i ds_ij v_h (1 - t^2)
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr const char* op = "additive_scores";
  const ProfileScope scope(op);
  check(q.rank() == 3 && k.rank() == 3 && k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
            v.shape() == Shape{q.size(2)},
        op, ": expected q (B, Tq, H), k (B, Tk, H) and v (H), got ", q.shape(), ", ", k.shape(),
        " and ", v.shape());
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), op, ": expected one dtype, got ",
        q.dtype(), ", ", k.dtype(), " and ", v.dtype());
  const Tensor scores = empty({q.size(0), q.size(1), k.size(1)}, q.dtype());
  const Tensor qs = dense(q), ks = dense(k), vs = dense(v);
  dispatch_floating(op, q.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::additive_scores<T>({q.size(0), q.size(1), k.size(1), q.size(2)}, qs.data<T>(),
                               ks.data<T>(), vs.data<T>(), scores.data<T>());
  });
  record_fused(
      op, {scores}, {q, k, v}, saves_nothing,
      [](auto& in) { return composed_scores(in[0], in[1], in[2]); },
      [](Backward& back) {
        Tensor x[3], d[3];
        for (int i = 0; i < 3; ++i) {
          x[i] = back.input(i).contiguous();
          d[i] = empty_like(x[i]);
        }
        const Tensor ds = back.grad().contiguous();
        const kernel::AdditiveSizes n{ds.size(0), ds.size(1), ds.size(2), x[2].size(0)};
        dispatch_floating("additive_scores", ds.dtype(), [&]<class T>(TypeTag<T>) {
          kernel::additive_scores_backward<T>(n, x[0].data<T>(), x[1].data<T>(), x[2].data<T>(),
                                              ds.data<T>(), d[0].data<T>(), d[1].data<T>(),
                                              d[2].data<T>());
        });
        for (int i = 0; i < 3; ++i) back.give(i, std::move(d[i]));
      });
  return scores;
}

}  // namespace gradus
