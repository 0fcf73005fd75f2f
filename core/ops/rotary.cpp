#include "gradus/core/ops/rotary.h"

#include "gradus/core/ops/prelude.h"

namespace gradus {

namespace {

/// Rotates the first `heads` heads of x forwards (direction 1) or backwards (-1); y may be x.
void rotate(const Tensor& x, const Tensor& positions, int64_t heads, double direction,
            const Tensor& y) {
  const int64_t time = x.size(-3), all = x.size(-2), dim = x.size(-1);
  if (x.numel() == 0) return;
  dispatch_floating("rotary", x.dtype(), [&]<class T>(TypeTag<T>) {
    const T *from = x.data<T>(), *table = positions.data<T>(), sign = static_cast<T>(direction);
    T* to = y.data<T>();
    const int64_t row = all * dim, tokens = x.numel() / row;
    parallel_for_each(tokens, 16384 / row + 1, [=](int64_t n) {
      const T* const angle = table + n % time * dim;
      for (int64_t at = n * row; at < n * row + heads * dim; at += dim)
        simd_for(dim / 2, [=](int64_t i) {
          const T s = sign * angle[2 * i], c = angle[2 * i + 1];
          const T even = from[at + 2 * i], odd = from[at + 2 * i + 1];
          to[at + 2 * i] = c * even - s * odd;
          to[at + 2 * i + 1] = c * odd + s * even;
        });
      if (to != from)
        std::copy(from + n * row + heads * dim, from + (n + 1) * row, to + n * row + heads * dim);
    });
  });
}

// y_2i = c x_2i - s x_2i+1, y_2i+1 = c x_2i+1 + s x_2i with (s, c) = positions[2i, 2i+1]; the
// gradient rotates the other way.
Tensor rotated(const Tensor& x, const Tensor& table, int64_t heads, double direction) {
  const ProfileScope scope("rotary");
  const Tensor y = empty(x.shape(), x.dtype());
  rotate(x.detach().contiguous(), table.contiguous(), heads, direction, y);
  record("rotary", {y}, {x, table}, saves_input(1), [heads, direction](Backward& back) {
    const Tensor table = back.input(1);
    if (back.create_graph()) return back.give(0, rotated(back.grad(), table, heads, -direction));
    const Tensor dy = take_grad(back).contiguous();
    Tensor dx = dy.is_sole_owner() ? dy : empty_like(dy);
    rotate(dy, table.contiguous(), heads, -direction, dx);
    back.give(0, std::move(dx));
  });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& positions, int64_t heads) {
  check_shape("rotary", "x", x, {"...", "T", "heads", "D"});
  check_floating("rotary", x);
  check(x.size(-1) % 2 == 0, "rotary: expected an even D, got x ", x.shape());
  check_tensor("rotary", "positions", positions, x.dtype(), {x.size(-3), x.size(-1)});
  check(heads >= 0 && heads <= x.size(-2), "rotary: expected 0 to ", x.size(-2),
        " heads to rotate, got ", heads);
  return rotated(x, positions.detach(), heads, 1);
}

}  // namespace gradus
