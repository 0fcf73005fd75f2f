#include "gradus/optim/elementwise.h"

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/optim/chunks.h"

namespace gradus::optim {

ElementwiseOptimizer::ElementwiseOptimizer(const char* name, ParameterGroups groups, double lr,
                                           double weight_decay, std::vector<State> states,
                                           Rules rules)
    : GroupOptimizer(name, std::move(groups), lr, weight_decay, std::move(states),
                     /*elementwise=*/true),
      rules_(std::move(rules)) {
  check(std::ssize(this->states()) <= max_state, name, ": expected at most ", max_state,
        " states, got ", this->states().size());
}

template <class T>
void ElementwiseOptimizer::update_chunk(const Update& update, int64_t begin,
                                        double grad_scale) const {
  Chunk<T> chunk{std::min(Chunks::grain, update.grad.numel() - begin),
                 update.param.data<T>() + begin,
                 update.grad.data<T>() + begin,
                 {},
                 update.lr,
                 update.weight_decay,
                 grad_scale,
                 update.step};
  for (size_t k = 0; k < update.state.size(); ++k)
    chunk.state[k] = update.state[k].data<T>() + begin;
  if constexpr (std::is_same_v<T, float>)
    rules_.of_float(chunk);
  else
    rules_.of_double(chunk);
}

void ElementwiseOptimizer::update(std::span<const Update> updates, double grad_scale) {
  Chunks chunks;
  for (const Update& u : updates) chunks.add(u.param.numel());
  parallel_for_each(chunks.count(), 1, [&](int64_t c) {
    const std::pair<size_t, int64_t> at = chunks[c];
    const Update& u = updates[at.first];
    dispatch_floating(name(), u.grad.dtype(),
                      [&]<class T>(TypeTag<T>) { update_chunk<T>(u, at.second, grad_scale); });
  });
}

}  // namespace gradus::optim
