#include "gradus/optim/parallel/data_parallel.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::optim {

namespace {
using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

WritableBytes bytes_of(const Tensor& t) {
  std::byte* data = dispatch_floating("DataParallel", t.dtype(), [&]<class T>(TypeTag<T>) {
    return reinterpret_cast<std::byte*>(t.data<T>());
  });
  return {data, static_cast<size_t>(t.numel() * size_of(t.dtype()))};
}
}  // namespace

DataParallel::DataParallel(std::vector<Tensor> params, Communicator& communicator,
                           const DataParallelOptions& options)
    : params_(std::move(params)), communicator_(communicator) {
  check(options.bucket_bytes > 0, "DataParallel: expected bucket_bytes > 0, got ",
        options.bucket_bytes);
  for (size_t i = 0; i < params_.size(); ++i)
    check(params_[i].is_leaf() && is_floating(params_[i].dtype()) && params_[i].is_contiguous(),
          "DataParallel: parameter ", i, ": expected a contiguous leaf of float32 or float64");
  copy_from_rank_0();
  make_buckets(options.bucket_bytes);
  hooks_.assign(params_.size(), -1);
  for (size_t i = 0; i < params_.size(); ++i)
    if (params_[i].requires_grad())
      hooks_[i] = params_[i].register_hook([this, i](const Tensor&) {
        if (running_) on_gradient(i);
        return Tensor();
      });
  if (communicator_.size() > 1) thread_ = std::thread([this] { run_exchanges(); });
}

DataParallel::~DataParallel() {
  for (size_t i = 0; i < params_.size(); ++i)
    if (hooks_[i] >= 0) params_[i].remove_hook(hooks_[i]);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DataParallel::copy_from_rank_0() {
  const NoGrad no_grad;
  std::ostringstream shapes;
  for (const Tensor& p : params_) shapes << p.dtype() << ' ' << p.shape() << '\n';
  const std::vector<std::string> all =
      all_gather(communicator_, shapes.str(), "the parameters' shapes");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string expected, got;
    int64_t i = -1;
    do {
      ++i;
      if (!std::getline(first, expected)) expected = "missing";
      if (!std::getline(other, got)) got = "missing";
    } while (expected == got);
    std::ostringstream message;
    message << "DataParallel: parameter " << i << " is " << got << " on rank " << rank << " and "
            << expected << " on rank 0";
    fail_on_all(communicator_, message.str());
  }
  for (const Tensor& p : params_) {
    begin_in_place("DataParallel", p);
    broadcast(communicator_, bytes_of(p), "rank 0's weights");
  }
}

/// Groups the parameters, last first since backward completes those first, into buckets of one
/// dtype.
void DataParallel::make_buckets(int64_t bucket_bytes) {
  bucket_of_.assign(params_.size(), 0);
  for (size_t i = params_.size(); i-- > 0;) {
    const Tensor& p = params_[i];
    if (!p.requires_grad()) continue;
    const auto full = [&](const Bucket& b) {
      return b.begins.back() * size_of(b.dtype) >= bucket_bytes;
    };
    if (buckets_.empty() || p.dtype() != buckets_.back().dtype || full(buckets_.back()))
      buckets_.push_back({.dtype = p.dtype(), .begins = {0}});
    Bucket& bucket = buckets_.back();
    bucket_of_[i] = buckets_.size() - 1;
    bucket.params.push_back(i);
    bucket.begins.push_back(bucket.begins.back() + p.numel());
  }
  for (Bucket& bucket : buckets_) bucket.in_sum.assign(bucket.params.size(), 0);
}

// ---- the thread that runs backward ----

void DataParallel::backward(const Tensor& loss, bool last, const std::string& what) {
  if (communicator_.size() == 1) return loss.backward();
  check(!running_, "DataParallel: backward was called inside backward");
  for (const Tensor& p : params_)
    if (p.requires_grad()) p.set_grad({});
  for (Bucket& bucket : buckets_) {
    bucket.gradients.assign(bucket.params.size(), Tensor());
    bucket.ready = 0;
    if (first_pass_) std::fill(bucket.in_sum.begin(), bucket.in_sum.end(), 0);
  }
  what_ = what;
  last_ = last;
  sent_ = queued_ = done_ = 0;
  arriving_ = -1;
  running_ = true;
  try {
    loss.backward();
    if (arriving_ >= 0) take(static_cast<size_t>(arriving_));
    send_ready(true);
    wait();
  } catch (...) {
    running_ = false;
    communicator_.abort();
    throw;
  }
  running_ = false;
  first_pass_ = last;
  for (const Bucket& bucket : buckets_)
    for (size_t k = 0; k < bucket.params.size(); ++k)
      params_[bucket.params[k]].set_grad(last ? bucket.gradients[k] : Tensor());
  for (Bucket& bucket : buckets_) bucket.gradients.clear();
}

/// Called before backward stores the parameter's gradient: takes the one that it has stored before.
void DataParallel::on_gradient(size_t param) {
  if (arriving_ >= 0) take(static_cast<size_t>(arriving_));
  arriving_ = static_cast<ptrdiff_t>(param);
  send_ready(false);
}

void DataParallel::take(size_t param) {
  Bucket& bucket = buckets_[bucket_of_[param]];
  const auto at = std::find(bucket.params.begin(), bucket.params.end(), param);
  bucket.gradients[static_cast<size_t>(at - bucket.params.begin())] =
      params_[param].grad().contiguous();
  ++bucket.ready;
}

/// Gives the thread the buckets that are complete, or all, in the order that all ranks share.
void DataParallel::send_ready(bool all) {
  const size_t before = sent_;
  while (sent_ < buckets_.size() && (all || buckets_[sent_].ready == buckets_[sent_].params.size()))
    ++sent_;
  if (sent_ == before) return;
  const std::lock_guard lock(mutex_);
  queued_ = sent_;
  changed_.notify_all();
}

void DataParallel::wait() {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == buckets_.size() || error_; });
  times_.wait += seconds_since(start);
  if (error_) std::rethrow_exception(error_);
}

// ---- the thread that exchanges ----

void DataParallel::run_exchanges() {
  const FlushDenormals flush;  // as the loops of ops do
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (done_ < queued_ && !error_); });
    if (stopping_) return;
    Bucket& bucket = buckets_[done_];
    lock.unlock();
    const Clock::time_point start = Clock::now();
    std::exception_ptr error;
    try {
      exchange(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    times_.exchange += seconds_since(start);
    error_ = error;
    if (!error) ++done_;
    changed_.notify_all();
  }
}

/// Replaces the bucket's gradients by their sums over all ranks and passes or, before the last pass,
/// adds this rank's part of them to the bucket's sum.
void DataParallel::exchange(Bucket& b) {
  const auto ranks = static_cast<size_t>(communicator_.size());
  const auto own = static_cast<size_t>(communicator_.rank());
  const auto element = static_cast<size_t>(size_of(b.dtype));
  // The bytes of rank i's part of a packed bucket.
  const auto part = [&](std::vector<std::byte>& bytes, size_t i) {
    const auto n = static_cast<size_t>(b.begins.back());
    const size_t begin = n * i / ranks, end = n * (i + 1) / ranks;
    return std::span(bytes).subspan(begin * element, (end - begin) * element);
  };
  const std::vector<std::vector<char>> present = gather_present(b);
  pack(b);
  const size_t size = part(packed_, own).size();
  received_.resize(std::max(received_.size(), ranks * size));
  std::vector<Bytes> send;
  std::vector<WritableBytes> receive;
  for (size_t i = 0; i < ranks; ++i) {
    send.push_back(part(packed_, i));
    receive.push_back(std::span(received_).subspan(i * size, size));
  }
  communicator_.all_to_all(send, receive, what_);

  const auto begin = static_cast<int64_t>(static_cast<size_t>(b.begins.back()) * own / ranks);
  b.sum.resize(size);
  for (size_t i = 0; i < ranks; ++i) add(b, begin, i == own ? send[own] : receive[i], present[i]);
  if (!last_) return;
  send.assign(ranks, b.sum);
  for (size_t i = 0; i < ranks; ++i) receive[i] = part(packed_, i);
  std::copy(b.sum.begin(), b.sum.end(), receive[own].begin());
  communicator_.all_to_all(send, receive, what_);
  unpack(b);
}

/// For each rank, which of the bucket's gradients it has.
std::vector<std::vector<char>> DataParallel::gather_present(const Bucket& b) {
  std::vector<char> own;
  for (const Tensor& g : b.gradients) own.push_back(g.defined());
  std::vector<std::vector<char>> all(static_cast<size_t>(communicator_.size()), own);
  std::vector<WritableBytes> receive;
  for (std::vector<char>& flags : all) receive.push_back(std::as_writable_bytes(std::span(flags)));
  communicator_.all_to_all(std::vector(all.size(), std::as_bytes(std::span(own))), receive, what_);
  return all;
}

/// Copies the gradients into packed_, one after another. Leaves gaps for those that are undefined.
void DataParallel::pack(const Bucket& b) {
  const auto bytes = static_cast<size_t>(b.begins.back() * size_of(b.dtype));
  packed_.resize(std::max(packed_.size(), bytes));
  for (size_t k = 0; k < b.params.size(); ++k) {
    if (!b.gradients[k].defined()) continue;
    const WritableBytes from = bytes_of(b.gradients[k]);
    std::copy(from.begin(), from.end(), packed_.begin() + b.begins[k] * size_of(b.dtype));
  }
}

void DataParallel::unpack(Bucket& b) const {
  for (size_t k = 0; k < b.params.size(); ++k) {
    if (!b.in_sum[k]) continue;
    if (!b.gradients[k].defined()) b.gradients[k] = empty_like(params_[b.params[k]]);
    const WritableBytes to = bytes_of(b.gradients[k]);
    std::copy_n(packed_.begin() + b.begins[k] * size_of(b.dtype), to.size(), to.begin());
  }
}

/// Adds one rank's elements, from the bucket's element number `begin` on, to the bucket's sum.
void DataParallel::add(Bucket& b, int64_t begin, Bytes elements, const std::vector<char>& present) {
  dispatch_floating("DataParallel", b.dtype, [&]<class T>(TypeTag<T>) {
    const T* from = reinterpret_cast<const T*>(elements.data());
    T* sum = reinterpret_cast<T*>(b.sum.data());
    const auto end = begin + static_cast<int64_t>(b.sum.size() / sizeof(T));
    for (size_t k = 0; k < b.params.size(); ++k) {
      if (!present[k]) continue;
      const int64_t first = std::clamp(b.begins[k], begin, end) - begin,
                    count = std::clamp(b.begins[k + 1], begin, end) - begin - first;
      if (b.in_sum[k])
        simd_for(count, [s = sum + first, f = from + first](int64_t i) { s[i] += f[i]; });
      else
        std::copy_n(from + first, count, sum + first);
      b.in_sum[k] = 1;
    }
  });
}

}  // namespace gradus::optim
