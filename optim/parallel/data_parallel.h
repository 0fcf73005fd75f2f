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
  int64_t bucket_bytes = 2 << 20;  ///< a bucket of gradients is full when it has at least this many
                                   ///< bytes
};

/// Sums gradients over all ranks while backward is still running. The gradients are exchanged in
/// buckets: groups of parameters of one dtype, filled from the last parameter to the first. As soon
/// as the gradients of a bucket, and of the buckets before it, are complete, a separate thread
/// exchanges them. Each rank adds up one part of each bucket, in the order of the ranks, and sends
/// the sum to all ranks. N ranks therefore compute bit for bit the same gradients as one rank whose
/// DataParallel runs N backward passes per step, one for the batch of each rank. (Without a
/// DataParallel, Tensor::backward() may add them in another order.) Example:
///   optim::DataParallel parallel(model.parameters(), communicator);
///   while (...) {
///     optimizer.zero_grad();
///     parallel.backward(model.loss(batch_of(step, communicator.rank())) / communicator.size());
///     optimizer.step();  // the same on each rank
///   }
/// Buffers are not exchanged: a BatchNorm normalises the batch of each rank separately, and its
/// running means and variances differ between ranks.
class DataParallel {
 public:
  /// Copies the parameters of rank 0 to all ranks. Throws Error unless every parameter is a
  /// contiguous leaf of float32, float64, bfloat16 or int8, and has the same shape, dtype and
  /// requires_grad() on all ranks; the message names the first parameter that fails. Also throws
  /// Error if a parameter is listed twice, if options.bucket_bytes is 0 or less, or if a thread
  /// cannot be started. Gradients of parameters that are frozen at construction are never
  /// exchanged. `communicator` must outlive this object.
  DataParallel(std::vector<Tensor> params, Communicator& communicator,
               const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Runs loss.backward() and exchanges the gradients. To accumulate gradients, call this function
  /// several times per step; each call is a pass, and only the last pass of a step has `last` =
  /// true. All ranks must make the same calls. `what` names the gradients in messages.
  ///
  /// After the last pass, the gradients of the parameters are sums over all ranks and passes, added
  /// in this order: pass 0 of ranks 0, 1, ..., then pass 1, and so on. After earlier passes the
  /// gradients are undefined or, with one rank, the sums so far. Gradients from before the first
  /// pass of a step are discarded. If some ranks have no gradient for a parameter, the gradients of
  /// the other ranks are summed.
  ///
  /// Throws Error, with no gradient changed, if `loss` does not require grad or does not have one
  /// element, or if the dtype of a parameter that requires grad has changed since construction.
  /// Also throws the errors of loss.backward() and Communicator::all_to_all. If there are several
  /// ranks, an error aborts the communicator. With one rank, an error ends the step: the next pass
  /// is the first of a new step.
  void backward(const Tensor& loss, bool last = true, const std::string& what = "gradients");

  /// Times in seconds, each the sum over all backward() calls so far.
  struct Times {
    double exchange = 0;  ///< exchanging and adding up gradients
    double wait = 0;      ///< waiting for exchanges after all gradients of this rank are computed
  };
  /// Returns the times so far.
  Times times() const { return times_; }

 private:
  struct Bucket {
    Dtype dtype;
    std::vector<size_t> params = {};  // positions in params_
    // Offset of each parameter in the bucket, in elements. The last entry is the bucket's number of
    // elements.
    std::vector<int64_t> begins;
    // This rank's gradients in the current pass, that is, in the current call of backward(). In the
    // last pass of a step, exchange() replaces them by the sums over all ranks and passes.
    std::vector<Tensor> gradients = {};
    size_t ready = 0;                 // number of complete gradients
    std::vector<std::byte> sum = {};  // sum over passes so far, for this rank's part of the bucket
    std::vector<char> in_sum = {};    // per parameter: whether any rank has added a gradient
  };
  struct Slice {
    size_t index;  // the parameter's index in the bucket
    int64_t begin, count, element_size;
    size_t bytes() const { return static_cast<size_t>(count * element_size); }
    std::span<std::byte> of(const Tensor& gradient) const;
  };
  void make_buckets(int64_t bucket_bytes);
  void copy_from_rank_0();
  void check_pass(const Tensor& loss) const;
  void run_pass(const Tensor& loss, bool last, const std::string& what);
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
  std::vector<int64_t> hooks_;     // per parameter: id of its gradient hook, or -1 if frozen
  std::vector<size_t> bucket_of_;  // per parameter: index of its bucket; unused if frozen
  std::vector<Bucket> buckets_;

  // State of the current pass, that is, of the current call of backward().
  bool running_ = false, last_ = true, first_pass_ = true;
  std::string what_;
  // Index of the parameter whose hook ran last, or -1 if no hook has run. The gradient of this
  // parameter may not be stored yet: backward stores it after the hook.
  ptrdiff_t arriving_ = -1;
  size_t sent_ = 0;  // number of buckets passed to thread_

  // Used only by thread_, which exchanges the gradients.
  std::vector<std::byte> received_;
  // Shared with thread_.
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t queued_ = 0, done_ = 0;  // number of buckets queued in this pass, number exchanged
  bool stopping_ = false;
  std::exception_ptr error_;
  Times times_;
  std::thread thread_;
};

}  // namespace gradus::optim
