#pragma once
// The frame of every training program: its flags, its folder, and how a run begins or goes on.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "examples/training/task.h"
#include "gradus/core/runtime/threads.h"

namespace gradus {

/// How a model is trained: what all programs have in common. A program sets its own defaults.
struct TrainOptions {
  int64_t steps = 2000, accumulate = 1, warmup = 100, decay_steps = 0;
  double lr = 1e-3, min_lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1, clip = 1;
  int64_t eval_every = 250, eval_batches = 20, patience = 0;
  uint64_t seed = 1337;
  std::string out = "out/train", init_from = {};
  int64_t threads = num_threads(), sample_every = 0;
  bool resume = false, overwrite = false, eval_only = false, detect_anomaly = false;

  /// Whether the weights are those of the checkpoint in `out`.
  bool from_checkpoint() const { return resume || (eval_only && init_from.empty()); }
  /// The folder whose weights and tokenizer the run begins with; empty: none, it begins anew.
  const std::string& begins_with() const { return from_checkpoint() ? out : init_from; }
};

/// Declares the flags of `options`, whose values are the defaults: those of the training, which a
/// checkpoint stores, and those of this run.
void add_training_flags(Flags& flags, TrainOptions& options);

/// What a program trains.
struct TrainProgram {
  const char* kind;                     ///< of model, as its folder has it
  models::Fields config;                ///< the model's configuration
  std::vector<std::string> data_flags;  ///< name the data's files, which may have moved on --resume
  /// Called once all options have their values and the random numbers their seed.
  std::function<std::unique_ptr<Task>()> make_task;
};

/// Reads the command line, begins a run or goes on with the one in --out, and trains; returns the
/// process's exit status.
int run_training(int argc, char** argv, Flags& flags, TrainOptions& options,
                 const TrainProgram& program);

}  // namespace gradus
