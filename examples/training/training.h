#pragma once
// Code shared by the train_* programs: flags, the run folder, and starting or resuming a run.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "examples/support/precision.h"
#include "examples/training/task.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/prefetch.h"

namespace gradus {

/// The optimiser: AdamW for all parameters, or Muon for the matrices of hidden layers and AdamW for
/// all other parameters.
enum class OptimizerKind { adamw, muon };

/// Options of the train_* programs. All members except `rank` and `ranks` are values of flags,
/// which are described in add_training_flags(). Each program sets its own defaults.
struct TrainOptions {
  int64_t steps = 2000, accumulate = 1, warmup = 100, decay_steps = 0;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 1e-3, min_lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1, clip = 1;
  double stable = 0, muon_lr = 0.02, muon_momentum = 0.95, muon_decay = 0, ema = 0;
  Precision precision = Precision::float32, muon_precision = Precision::float32;
  int64_t muon_steps = 5;
  int64_t eval_every = 250, eval_batches = 20, patience = 0;
  uint64_t seed = 1337;
  std::string out = "out/train", init_from = {};
  int64_t threads = num_threads(), sample_every = 0;
  double deadline = 60;
  int rank = 0, ranks = 1;  // rank of this process; number of ranks
  bool resume = false, overwrite = false, eval_only = false, detect_anomaly = false;
  bool shard_optimizer = false, tensorboard = false, polar_express = false, muon_per_head = false;
  int64_t page = -1;  // port of the run's page; -1 means no page

  /// Returns which batches of a step this rank computes: those with index `rank`, `rank + ranks`,
  /// and so on.
  models::BatchOrder batch_order() const { return {accumulate, rank, ranks}; }
  /// Returns whether the weights come from the checkpoint in `out`.
  bool from_checkpoint() const { return resume || (eval_only && init_from.empty()); }
  /// Returns the folder with the initial weights and tokenizer of the run; empty if it starts from
  /// scratch.
  const std::string& begins_with() const { return from_checkpoint() ? out : init_from; }
};

/// Returns the kind of model (for example "gpt") in config.json of the folder from which the run
/// starts. Returns "" if the run starts from scratch or the folder has no config.json. If
/// config.json cannot be read, throws Error with --init-from, but returns "" for a run that
/// continues from a checkpoint: the checkpoint also contains the configuration.
std::string stored_kind(const TrainOptions& options);

/// Declares a flag for each member of `options` except `rank` and `ranks`. The value of the member
/// is the default. Exceptions: run_training() computes the default of --min-lr and, with several
/// ranks, those of --accumulate and --threads. Checkpoints store the flags of the group "Training",
/// for example --lr, but not those of the group "This run", for example --threads.
void add_training_flags(Flags& flags, TrainOptions& options);

/// Declares --recompute if the model or its image encoder is a stack of transformer blocks. Must be
/// called after add_training_flags(): the flag then belongs to the group "This run", which
/// checkpoints do not store. (The flag does not change results.)
template <class Config>
void add_recompute_flag(Flags& flags, Config& config) {
  if constexpr (requires { config.recompute; })
    flags.add("--recompute", config.recompute, 0, 10000,
              "backward recomputes the activations of all blocks, this many blocks at a time: less "
              "memory, more time; 0 keeps all");
  else if constexpr (requires { config.encoder.recompute; })
    add_recompute_flag(flags, config.encoder);
  else if constexpr (requires { config.image.recompute; })
    add_recompute_flag(flags, config.image);
}

/// What run_training() needs to know about a program.
struct TrainProgram {
  const char* kind;                     ///< kind of the model, as in config.json
  models::Fields config;                ///< configuration of the model
  std::vector<std::string> data_flags;  ///< flags with data paths; the paths may differ on --resume
  /// Returns whether make_task() writes the data to files. If so, rank 0 calls make_task() before
  /// the other ranks do.
  std::function<bool()> writes_data = [] { return false; };
  /// Makes the task. It is called after all options are set and the random generator is seeded.
  std::function<std::unique_ptr<Task>()> make_task;
};

/// Parses the command line and trains: starts a run or, with --resume, continues the run in --out.
/// With --eval-only, only evaluates the run in --out or the model in --init-from. With --help, only
/// prints the help. Returns the exit status of the process: 0, or 130 if interrupted. On failure
/// throws Error. With several ranks, one rank throws Error and the other ranks return 1. If the
/// ranks cannot be connected, each of them may throw.
int run_training(int argc, char** argv, Flags& flags, TrainOptions& options,
                 const TrainProgram& program);

}  // namespace gradus
