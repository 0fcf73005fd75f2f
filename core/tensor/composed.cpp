// The mode that replaces fused ops by their composed forms (Modes::composed). Tests run under it to
// show that no result depends on a kernel.

#include "gradus/core/internal.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

void Recorder::record_composed(const char* name, const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& inputs, const Composed& composed) {
  const std::vector<Tensor> results = composed(inputs);
  check(results.size() == outputs.size(), name, ": expected ", outputs.size(),
        " outputs of the composed form, got ", results.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    outputs[i].copy_(results[i].detach());
    core::record("composed", {outputs[i]}, {results[i]}, saves_nothing,
                 [](Backward& b) { b.give(0, b.grad()); });
  }
}

}  // namespace gradus
