#include "gradus/core/ops/activation.h"

#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/activation_table.h"
#include "gradus/core/ops/prelude.h"

namespace gradus {

namespace {

/// dy times the slope by what A keeps, written over dy where nobody else holds it.
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
Tensor pointwise(const char* name, const Tensor& x) {
  const ProfileScope scope(name);
  const Tensor y = empty_like(x);
  dispatch_floating(name, x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T>(y, x, [](T v) { return A::at(v).value; });
  });
  record(name, {y}, {x}, A::from_output ? saves_output : saves_input(0), [](Backward& b) {
    const Tensor kept = A::from_output ? b.output() : b.input(0);
    b.give(0, b.create_graph() ? A::gradient(b.grad(), kept) : gradient<A>(take_grad(b), kept));
  });
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) { return pointwise<Relu>("relu", x); }
Tensor tanh(const Tensor& x) { return pointwise<Tanh>("tanh", x); }
Tensor sigmoid(const Tensor& x) { return pointwise<Sigmoid>("sigmoid", x); }
Tensor gelu(const Tensor& x) { return pointwise<Gelu>("gelu", x); }
Tensor gelu_tanh(const Tensor& x) { return pointwise<GeluTanh>("gelu_tanh", x); }
Tensor silu(const Tensor& x) { return pointwise<Silu>("silu", x); }
Tensor quick_gelu(const Tensor& x) { return pointwise<QuickGelu>("quick_gelu", x); }

namespace {
struct NamedOp {
  const char* name;
  Tensor (*op)(const Tensor&);
};
/// In the order of enum Activation.
constexpr NamedOp named_ops[] = {{"none", [](const Tensor& x) { return x; }},
                                 {"relu", relu},
                                 {"tanh", tanh},
                                 {"sigmoid", sigmoid},
                                 {"gelu", gelu},
                                 {"gelu_tanh", gelu_tanh},
                                 {"silu", silu},
                                 {"quick_gelu", quick_gelu}};

static_assert(std::size(named_ops) == activations.size());

const NamedOp& named_op(Activation activation) {
  const auto i = static_cast<size_t>(activation);
  check(i < std::size(named_ops), "activation: none has the number ", i);
  return named_ops[i];
}
}  // namespace

const char* core::name_of(Activation activation) { return named_op(activation).name; }
Tensor core::activate(const Tensor& x, Activation activation) { return named_op(activation).op(x); }

// ---- gates ----

namespace {

/// The halves of x's last axis, outside the graph.
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
  named_op(activation);
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
