// Writes what another framework needs to repeat a run's steps, for twins.py.
//
//   build/bin/twin_data RUN OUT
//
// Reads the folder RUN that train_bert or train_gpt wrote, and writes OUT/weights.safetensors, the
// weights that the run started with, and OUT/data.safetensors: the batches of all its steps,
// concatenated ("train.ids", (steps, B, T), and so on), and the whole validation part
// ("validation.ids", (N, T)).

#include <gradus/gradus.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "examples/support/cli.h"
#include "examples/support/source_text.h"
#include "examples/tasks/corpus.h"
#include "examples/training/training.h"

using namespace gradus;
using Json = nlohmann::json;

namespace {

/// All fields of the batches of steps 0, 1, ... and of the validation part, one tensor per field.
template <class Batch>
NamedTensors data_of(const std::vector<std::pair<const char*, Tensor Batch::*>>& fields,
                     int64_t steps, const std::function<Batch(int64_t)>& train,
                     const Batch& validation) {
  std::vector<Batch> batches;
  for (int64_t step = 0; step < steps; ++step) batches.push_back(train(step));
  NamedTensors out;
  for (const auto& field : fields) {
    std::vector<Tensor> column;
    for (const Batch& batch : batches) column.push_back(batch.*field.second);
    out.emplace_back(std::string("train.") + field.first, stack(column));
    out.emplace_back(std::string("validation.") + field.first, validation.*field.second);
  }
  return out;
}

struct Run {
  std::string folder;
  Json options;
  int64_t batch, context, steps;
  uint64_t seed;

  explicit Run(const std::string& dir) : folder(dir) {
    const models::Checkpoint checkpoint(dir + "/checkpoint.safetensors");
    options = Json::parse(checkpoint.metadata().at("options"));
    batch = options.at("batch"), context = options.at("context"), steps = options.at("steps");
    seed = options.at("seed");
    core::check(options.at("accumulate") == 1, "twin_data: expected a run with --accumulate 1");
  }
};

/// The model that the run starts with.
template <class Model>
NamedTensors first_weights(const Run& run) {
  manual_seed(run.seed);
  return Model(models::load_config<Model>(run.folder)).state_dict();
}

NamedTensors bert_data(const Run& run) {
  using models::MaskedBatch;
  const std::string path = run.options.at("data");
  const auto tokenizer = models::load_tokenizer(models::tokenizer_path(run.folder));
  const models::MaskedPairs data(path.empty() ? source_text() : read_file(path), *tokenizer,
                                 {.length = run.context});
  return data_of<MaskedBatch>(
      {{"ids", &MaskedBatch::ids},
       {"segments", &MaskedBatch::segments},
       {"mask", &MaskedBatch::mask},
       {"targets", &MaskedBatch::targets},
       {"is_next", &MaskedBatch::is_next}},
      run.steps,
      [&](int64_t step) { return data.random_batch(Split::train, run.batch, run.seed, step); },
      data.examples(Split::validation, 0, data.num_examples(Split::validation)));
}

NamedTensors gpt_data(const Run& run) {
  using models::PackedBatch;
  const Corpus text({.data = run.options.at("data"), .val_data = run.options.at("val_data")},
                    run.folder, run.folder, run.context);
  std::vector<Tensor> inputs, targets;
  for (int64_t i = 0; i < text.validation_batches(); ++i) {
    const PackedBatch batch = text.validation_batch(i);
    if (batch.inputs.size(1) < run.context) continue;  // what is left after the last whole window
    inputs.push_back(batch.inputs);
    targets.push_back(batch.targets);
  }
  const PackedBatch validation{cat(inputs, 0), cat(targets, 0), {}};
  NamedTensors out = data_of<PackedBatch>(
      {{"ids", &PackedBatch::inputs}, {"targets", &PackedBatch::targets}}, run.steps,
      [&](int64_t step) { return text.random_batch(Split::train, run.batch, run.seed, step, 0); },
      validation);
  out.emplace_back("validation.bytes", full({1}, text.bytes(validation.targets), float64));
  return out;
}

int run(int argc, char** argv) {
  core::check(argc == 3, "usage: twin_data RUN OUT");
  const Run run(argv[1]);
  const std::string kind = models::model_kind(run.folder), out = argv[2];
  const bool bert = kind == models::Bert::kind;
  core::check(bert || kind == models::GPT::kind, "twin_data: ", run.folder,
              " holds a model of kind ", kind, ", which has no twin");
  save_safetensors(out + "/weights.safetensors",
                   bert ? first_weights<models::Bert>(run) : first_weights<models::GPT>(run));
  save_safetensors(out + "/data.safetensors", bert ? bert_data(run) : gpt_data(run));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("twin_data", argc, argv, run); }
