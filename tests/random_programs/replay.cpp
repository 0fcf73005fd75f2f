#include "tests/random_programs/replay.h"

#include "tests/random_programs/ops.h"
#include "tests/random_programs/run.h"

namespace gradus::programs {

std::string replay_line(const Program& program) {
  Program plain = program;
  for (Step& step : plain.steps) step.leaf.has_grad = false;
  const Result result = run(plain);
  std::string values, gradients, factors;
  for (size_t s = 0; s < plain.steps.size(); ++s) {
    if (plain.steps[s].op >= 0 && !result.values[s].empty()) {
      values += (values.empty() ? "" : ",") + ("\"" + std::to_string(s) + "\":[");
      for (size_t k = 0; k < result.values[s].size(); ++k)
        values += (k > 0 ? "," : "") + as_json(result.values[s][k].to_vector<double>());
      values += "]";
    }
    if (result.gradients[s].defined())
      gradients += (gradients.empty() ? "" : ",") + ("\"" + std::to_string(s) + "\":") +
                   as_json(result.gradients[s].to_vector<double>());
  }
  for (const Ref ref : plain.outputs) {
    const Tensor& y = result.values[size_t(ref.step)][size_t(ref.output)];
    factors +=
        (factors.empty() ? "" : ",") +
        as_json(
            constants(y.shape(), float64, uint64_t(ref.step * 8 + ref.output)).to_vector<double>());
  }
  return "{\"program\":" + as_json(plain) + ",\"values\":{" + values + "},\"gradients\":{" +
         gradients + "},\"factors\":[" + factors + "]}";
}

}  // namespace gradus::programs
