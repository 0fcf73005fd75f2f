#include "gradus/nn/metrics.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"

namespace gradus::nn {

double accuracy(const Tensor& logits, const Tensor& targets, const AccuracyOptions& options) {
  const NoGrad no_grad;
  check(is_floating(logits.dtype()), "accuracy: expected logits of float32 or float64, got ",
        logits.dtype());
  check(logits.rank() >= 1 && logits.shape().back() >= 1,
        "accuracy: expected logits (..., classes), got shape ", logits.shape());
  check_tensor("accuracy", "targets", targets, int64, logits.shape().without(-1));
  const int64_t classes = logits.shape().back();
  for (int64_t t : targets.to_vector<int64_t>())
    check((t >= 0 && t < classes) || t == options.ignore_index, "accuracy: target ", t,
          " is outside [0, ", classes, ")");
  const Tensor counted = targets != static_cast<double>(options.ignore_index);
  const Tensor without_nan = sum(isnan(logits), -1) == 0;
  const Tensor hits = (argmax(logits, -1) == targets) & without_nan & counted;
  return sum(hits).item() / sum(counted).item();
}

}  // namespace gradus::nn
