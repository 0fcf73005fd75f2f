#pragma once
// DataParallel: several ranks train copies of one model on different batches.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "gradus/core/tensor/tensor.h"
#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// Options of DataParallel.
struct DataParallelOptions {
  int64_t bucket_bytes = 2 << 20;  ///< gradients are sent in buckets of at least this size
};

/// Sums gradients over all ranks while backward still runs: as soon as the gradients of a bucket of
/// parameters are complete, a thread of its own exchanges them. Each rank adds up one part of each
/// bucket, in the order of the ranks, and sends the sum to all. So N ranks give the bits of one rank
/// that runs N backward passes, one per rank's batch:
///   optim::DataParallel parallel(model.parameters(), communicator);
///   while (...) {
///     optimizer.zero_grad();
///     parallel.backward(model.loss(batch_of(step, communicator.rank())) / communicator.size());
///     optimizer.step();  // the same on each rank
///   }
/// Buffers are not exchanged: a BatchNorm normalises each rank's batch by itself, and its running
/// means differ between ranks.
class DataParallel {
 public:
  /// Copies rank 0's parameters to all ranks. Throws Error, naming the first that differs, unless
  /// the parameters have the same shapes and dtypes on all ranks. Frozen parameters are not
  /// exchanged later. `communicator` must outlive this object.
  DataParallel(std::vector<Tensor> params, Communicator& communicator,
               const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Runs loss.backward(). After the last of a step's backward passes the parameters' gradients are
  /// the sums over all ranks and passes: pass 0 of ranks 0, 1, ..., then pass 1. After the others
  /// they are unset or, with one rank, the sums so far. Gradients from before a step's first pass
  /// are lost. A parameter without a gradient on some ranks gets the sum of the others'.
  /// `what` names the gradients in messages. Throws as Communicator::all_to_all does.
  void backward(const Tensor& loss, bool last = true, const std::string& what = "gradients");

  /// Seconds so far.
  struct Times {
    double exchange = 0;  ///< exchanging and adding up gradients
    double wait = 0;      ///< of these, after backward: what it does not hide
  };
  /// Times of the exchanges of all backward passes.
  Times times() const { return times_; }

 private:
  struct Bucket {
    Dtype dtype;
    std::vector<size_t> params = {};  // positions in params_
    std::vector<int64_t>
        begins;  // the first element of each, if they follow one another, and the end
    std::vector<Tensor> gradients = {};  // of this rank, in this pass
    size_t ready = 0;                    // number of gradients that are complete
    std::vector<std::byte> sum = {};     // this rank's part of the sum, over the passes so far
    std::vector<char> in_sum = {};       // by parameter: whether any gradient is in the sum
  };
  struct Slice {
    size_t index;  // of the parameter in the bucket
    int64_t begin, count, element_size;
    size_t bytes() const { return static_cast<size_t>(count * element_size); }
    std::span<std::byte> of(const Tensor& gradient) const;
  };
  void make_buckets(int64_t bucket_bytes);
  void copy_from_rank_0();
  void on_gradient(size_t param);
  void take(size_t param);
  void send_ready(bool all);
  void wait();
  void run_exchanges();
  void exchange(Bucket& bucket);
  std::vector<std::vector<char>> gather_present(const Bucket& bucket);
  std::vector<Slice> slices(const Bucket& bucket, size_t rank) const;
  size_t part_bytes(const Bucket& bucket, size_t rank) const;
  void add(Bucket& bucket, const std::vector<Slice>& part,
           const std::vector<std::vector<std::span<std::byte>>>& inputs) const;

  std::vector<Tensor> params_;
  Communicator& communicator_;
  std::vector<int64_t> hooks_;     // by parameter: the hook's id, or -1
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<Bucket> buckets_;

  // The current pass.
  bool running_ = false, last_ = true, first_pass_ = true;
  std::string what_;
  ptrdiff_t arriving_ = -1;  // the parameter whose gradient backward is about to store
  size_t sent_ = 0;          // buckets given to the thread

  // The thread's.
  std::vector<std::byte> received_;
  // Shared with the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t queued_ = 0, done_ = 0;  // buckets of this pass
  bool stopping_ = false;
  std::exception_ptr error_;
  Times times_;
  std::thread thread_;
};

}  // namespace gradus::optim
