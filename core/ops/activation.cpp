#include "gradus/core/ops/activation.h"

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/activation_table.h"
#include "gradus/core/profiler.h"
#include "gradus/core/reuse.h"

namespace gradus {

namespace {

/// dy times the slope by what A keeps, written over dy where nobody else holds it.
template <class A>
Tensor gradient(Tensor dy, const Tensor& kept) {
  const Tensor dx = dy.is_sole_owner() && dy.is_contiguous() ? dy : empty_like(dy);
  dispatch_floating("activation", dy.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
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
  dispatch_floating(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
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

}  // namespace gradus
