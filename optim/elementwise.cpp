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

void ElementwiseOptimizer::update(std::span<const Update> updates, double grad_scale) {
  Chunks chunks;
  for (const Update& u : updates) chunks.add(u.param.numel());
  parallel_for_each(chunks.count(), 1, [&](int64_t c) {
    const std::pair<size_t, int64_t> at = chunks[c];
    const Update& u = updates[at.first];
    dispatch_floating(name(), u.grad.dtype(), [&, begin = at.second]<class T>(TypeTag<T>) {
      Chunk<T> chunk{std::min(Chunks::grain, u.grad.numel() - begin),
                     u.param.data<T>() + begin,
                     u.grad.data<T>() + begin,
                     {},
                     u.lr,
                     u.weight_decay,
                     grad_scale,
                     u.step};
      for (size_t k = 0; k < u.state.size(); ++k) chunk.state[k] = u.state[k].data<T>() + begin;
      if constexpr (std::is_same_v<T, float>)
        rules_.of_float(chunk);
      else
        rules_.of_double(chunk);
    });
  });
}

}  // namespace gradus::optim
