#include "gradus/core/tensor/reuse.h"

#include "gradus/core/internal.h"
#include "gradus/core/tensor/engine.h"

namespace gradus {

Tensor Engine::sum_in_place(const Backward& back, int i) {
  const Edge& edge = back.node_.edges()[back.input_index(i)];
  if (!back.needs(i) || back.create_graph()) return {};
  const Tensor* sum = back.engine_.sum_at(edge);
  return sum && sum->is_sole_owner() && sum->is_contiguous() && back.engine_.may_write(i, *sum)
             ? *sum
             : Tensor();
}

Tensor Engine::take_input(const Backward& back, int i) {
  back.input(i);  // throws if it was not saved or has changed
  Tensor& saved = back.node_.saved_inputs_[static_cast<size_t>(i)].tensor;
  if (!back.engine_.frees_graph() || !saved.is_sole_owner()) return {};
  return std::exchange(saved, {});
}

Tensor Engine::take_grad(const Backward& back, int i) {
  Tensor g = back.grad(i);
  back.engine_.gradients(back.node_)[back.output_index(i)] = {};
  return g;
}

Tensor internal::sum_in_place(const Backward& back, int i) { return Engine::sum_in_place(back, i); }
Tensor internal::take_input(const Backward& back, int i) { return Engine::take_input(back, i); }
Tensor internal::take_grad(const Backward& back, int i) { return Engine::take_grad(back, i); }

}  // namespace gradus
