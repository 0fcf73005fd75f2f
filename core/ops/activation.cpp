#include "gradus/core/ops/activation.h"

#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/activation_table.h"
#include "gradus/core/ops/prelude.h"

namespace gradus {

namespace {

/// Returns dy times the slope of activation A, computed from `kept`, which is its output or its
/// input. Overwrites dy if it has no other owner.
template <class A>
Tensor gradient(Tensor dy, const Tensor& kept) {
  const Tensor dx = dy.is_sole_owner() && dy.is_contiguous() ? dy : empty_like(dy);
  dispatch_floating("activation", dy.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T, T>(dx, dy, kept, [](T g, T k) {
      if constexpr (A::from_output)
        return A::gradient(g, k);
      else
        return g * A::at(k).slope;
    });
  });
  return dx;
}

template <class A>
Tensor pointwise(const Tensor& x) {
  const ProfileScope scope(A::name);
  const Tensor y = empty_like(x);
  dispatch_floating(A::name, x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T>(y, x, [](T v) { return A::at(v).value; });
  });
  record(A::name, {y}, {x}, A::from_output ? saves_output : saves_input(0), [](Backward& b) {
    const Tensor kept = A::from_output ? b.output() : b.input(0);
    b.give(0, b.create_graph() ? A::gradient(b.grad(), kept) : gradient<A>(take_grad(b), kept));
  });
  return y;
}

}  // namespace

const char* core::name_of(Activation activation) {
  return with_activation(activation, [](auto act) -> const char* {
    if constexpr (std::is_same_v<decltype(act), Identity>)
      return "none";
    else
      return decltype(act)::name;
  });
}

Tensor core::activate(const Tensor& x, Activation activation) {
  return with_activation(activation, [&](auto act) {
    if constexpr (std::is_same_v<decltype(act), Identity>)
      return x;
    else
      return pointwise<decltype(act)>(x);
  });
}

// ---- gates ----

namespace {

/// The two halves of x's last axis, outside the graph.
std::pair<Tensor, Tensor> halves(const Tensor& x) {
  const int64_t n = x.size(-1) / 2;
  return {x.detach().slice(-1, 0, n), x.detach().slice(-1, n)};
}

}  // namespace

// y = act(a) b        da = dy b act'(a)    db = dy act(a)
Tensor gated(const Tensor& x, Activation activation) {
  const ProfileScope scope("gated");
  check_shape("gated", "x", x, {"...", "2n"});
  check(x.size(-1) % 2 == 0, "gated: expected a last axis of even size, got ", x.shape());
  const Tensor y = empty(x.shape().with(-1, x.size(-1) / 2), x.dtype());
  dispatch_floating("gated", x.dtype(), [&]<class T>(TypeTag<T>) {
    with_activation(activation, [&](auto act) {
      const auto x_halves = halves(x);
      kernel::map<T, T, T>(y, x_halves.first, x_halves.second,
                           [](T a, T b) { return decltype(act)::at(a).value * b; });
    });
  });
  record_fused(
      "gated", {y}, {x}, saves_nothing,
      [activation](auto& in) {
        const std::vector<Tensor> parts = in[0].chunk(2, -1);
        return activate(parts[0], activation) * parts[1];
      },
      [activation](Backward& back) {
        const Tensor x = back.input(0), dy = take_grad(back);
        Tensor dx = empty(x.shape(), x.dtype());
        const auto x_halves = halves(x), d_halves = halves(dx);
        dispatch_floating("gated", x.dtype(), [&]<class T>(TypeTag<T>) {
          with_activation(activation, [&](auto act) {
            using A = decltype(act);
            kernel::map<T, T, T, T>(d_halves.first, dy, x_halves.first, x_halves.second,
                                    [](T g, T a, T b) { return g * b * A::at(a).slope; });
            kernel::map<T, T, T>(d_halves.second, dy, x_halves.first,
                                 [](T g, T a) { return g * A::at(a).value; });
          });
        });
        back.give(0, std::move(dx));
      });
  return y;
}

}  // namespace gradus
