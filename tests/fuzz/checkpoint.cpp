#include "gradus/models/folder/checkpoint.h"

#include "gradus/core/core.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/fuzz/fuzz.h"

namespace checkpoint_fuzz {

using namespace gradus;

namespace {

struct Run {
  nn::Linear model{2, 1};
  optim::AdamW optimizer{model.parameters()};
};

std::vector<std::string> seeds() {
  Run run;
  auto save = [&](const std::string& path) {
    models::save_checkpoint(path, run.model, run.optimizer, {{"step", "7"}});
  };
  const std::string before = fuzz::saved(save);
  run.model(ones({1, 2})).backward();
  run.optimizer.step();
  return {before, fuzz::saved(save)};
}

/// Checks that a refused checkpoint changes nothing.
void run(const std::string& bytes) {
  fuzz::past_checksum(bytes, fuzz::repair_safetensors, [](const std::string& file) {
    const models::Checkpoint checkpoint(fuzz::write(file));
    Run run;
    const Tensor weight = run.model.weight.clone();
    const size_t entries = run.optimizer.state_dict().size();
    try {
      checkpoint.restore(run.model, run.optimizer);
    } catch (const Error&) {
      fuzz::expect(run.model.weight.to_vector<float>() == weight.to_vector<float>() &&
                       run.optimizer.state_dict().size() == entries,
                   "a checkpoint that was refused has changed something");
      throw;
    }
  });
}

const fuzz::Register target{{"checkpoint", seeds, run, 400}};

}  // namespace

}  // namespace checkpoint_fuzz
