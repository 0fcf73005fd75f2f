#pragma once
// The workloads of the benchmark, on random input: training steps, single ops and generation.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradus/nn/module.h"
#include "gradus/optim/parallel/data_parallel.h"

namespace gradus::bench {

/// A prepared workload. Calls of `step` are timed.
struct Workload {
  std::function<void()> step;
  int64_t items;        ///< number of tokens or examples per step
  double weight_bytes;  ///< for generation: bytes of weights read per token; otherwise 0
};

struct NamedWorkload {
  std::string name;
  std::function<Workload()> make;
  /// True for the workloads of growth.py, which differ from gpt-char in a single size. They run
  /// only if the command line names them.
  bool growth = false;
};

/// How training steps are divided among ranks. Each rank runs `batches` batches per step, and the
/// gradients are summed over all ranks.
struct RankSetup {
  optim::Communicator* communicator = nullptr;  ///< null: one rank, one batch per step
  int64_t batches = 1;
  bool shard_optimizer = false;                        ///< requires a communicator
  std::shared_ptr<optim::DataParallel> parallel = {};  ///< set when a training workload is created
};
/// Returns the global RankSetup. Set it before creating training workloads, which read it only when
/// they are created.
RankSetup& rank_setup();

/// Returns a workload that trains the model with AdamW. A step calls zero_grad, computes loss() and
/// its gradients for each batch, clips the gradients to norm 1 if `clip` is true, and updates the
/// parameters. `items` is the number of tokens or examples per batch. The returned workload keeps
/// `loss` but not the model, so `loss` must keep the model alive, for example with a shared_ptr.
Workload trainer(const nn::Module& model, std::function<Tensor()> loss, int64_t items,
                 bool clip = true);

/// Returns the workloads on images: vit, contrastive, cnn-attention and conv (a single 3x3
/// convolution, 64 to 64 channels of 32 x 32, batch 32).
std::vector<NamedWorkload> vision_workloads();

/// Returns all workloads: those of vision_workloads(), mlp, gpt-char, gpt-char-muon, gpt-baby,
/// gpt-baby-muon, gpt2-124M, lstm (2 layers of width 256, 64 sequences of 64 tokens), seq2seq,
/// bert, attention-512 to attention-32768, generate-124M, generate-124M-bf16, generate-124M-int8,
/// and the workloads of growth.py. The latter vary one size of gpt-char: the sequence length
/// (length-512 to length-16384, batch size 1), the width (width-64 to width-1024, heads of width
/// 32) or the batch size (batch-1 to batch-192).
const std::vector<NamedWorkload>& workloads();

}  // namespace gradus::bench
