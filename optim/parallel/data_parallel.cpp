#include "gradus/optim/parallel/data_parallel.h"

#include <algorithm>
#include <chrono>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/parallel/bytes.h"

namespace gradus::optim {

namespace {
using WritableBytes = std::span<std::byte>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
}  // namespace

std::span<std::byte> DataParallel::Slice::of(const Tensor& gradient) const {
  return bytes_of(gradient).subspan(static_cast<size_t>(begin * element_size), bytes());
}

DataParallel::DataParallel(std::vector<Tensor> params, Communicator& communicator,
                           const DataParallelOptions& options)
    : params_(std::move(params)), communicator_(communicator) {
  check(options.bucket_bytes > 0, "DataParallel: expected bucket_bytes > 0, got ",
        options.bucket_bytes);
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& p = params_[i];
    const bool whole = p.dtype() != int8 || p.impl().scales.defined();
    check(p.is_leaf() && p.is_contiguous() &&
              (is_floating(p.dtype()) || is_compressed(p.dtype())) && whole,
          "DataParallel: parameter ", i,
          ": expected a contiguous leaf of float32, float64, bfloat16 or int8");
    for (size_t k = 0; k < i; ++k)
      check(&params_[k].impl() != &p.impl(), "DataParallel: parameter ", i,
            " is listed twice, first as parameter ", k);
  }
  copy_from_rank_0();
  make_buckets(options.bucket_bytes);
  hooks_.assign(params_.size(), -1);
  try {
    if (communicator_.size() > 1) thread_ = std::thread([this] { run_exchanges(); });
  } catch (const std::system_error& error) {
    fail("DataParallel: the thread that exchanges gradients cannot start: ", error.what());
  }
  // After the last error: hooks must not outlive this object.
  for (size_t i = 0; i < params_.size(); ++i)
    if (params_[i].requires_grad())
      hooks_[i] = params_[i].register_hook([this, i](const Tensor&) {
        if (running_) on_gradient(i);
        return Tensor();
      });
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
  for (const Tensor& p : params_)
    shapes << p.dtype() << ' ' << p.shape() << (p.requires_grad() ? "" : " frozen") << '\n';
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
    fail_on_all(communicator_, "DataParallel: parameter " + std::to_string(i) + " is " + got +
                                   " on rank " + std::to_string(rank) + " and " + expected +
                                   " on rank 0");
  }
  for (const Tensor& p : params_) {
    begin_in_place("DataParallel", p);
    for_memory_of(p, [&](std::span<std::byte> bytes) {
      broadcast(communicator_, bytes, "rank 0's weights");
    });
  }
}

/// Groups the parameters into buckets of one dtype, from the last parameter to the first, because
/// backward completes the gradients of the last parameters first.
void DataParallel::make_buckets(int64_t bucket_bytes) {
  bucket_of_.assign(params_.size(), 0);
  for (size_t i = params_.size(); i-- > 0;) {
    const Tensor& p = params_[i];
    if (!p.requires_grad()) continue;
    if (buckets_.empty() || p.dtype() != buckets_.back().dtype ||
        buckets_.back().begins.back() * size_of(p.dtype()) >= bucket_bytes)
      buckets_.push_back({.dtype = p.dtype(), .begins = {0}});
    Bucket& bucket = buckets_.back();
    bucket_of_[i] = buckets_.size() - 1;
    bucket.params.push_back(i);
    bucket.begins.push_back(bucket.begins.back() + p.numel());
  }
}

// ---- the thread that runs backward ----

void DataParallel::backward(const Tensor& loss, bool last, const std::string& what) {
  check(!running_, "DataParallel: backward was called inside backward");
  const bool alone = communicator_.size() == 1;
  try {
    check_pass(loss);
    for (const Tensor& p : params_)
      if (p.requires_grad() && (first_pass_ || !alone)) p.set_grad({});
    if (alone)
      loss.backward();
    else
      run_pass(loss, last, what);
  } catch (...) {
    running_ = false;
    if (alone)
      first_pass_ = true;
    else
      communicator_.abort();
    throw;
  }
  first_pass_ = last;
}

/// Throws Error unless the gradients of `loss` can be exchanged.
void DataParallel::check_pass(const Tensor& loss) const {
  check(loss.defined() && loss.requires_grad(), "DataParallel: the loss does not require grad");
  check(loss.numel() == 1, "DataParallel: expected a loss of one element, got shape ",
        loss.shape());
  for (const Bucket& bucket : buckets_)
    for (const size_t i : bucket.params)
      check(!params_[i].requires_grad() || params_[i].dtype() == bucket.dtype,
            "DataParallel: parameter ", i, ": expected ", bucket.dtype,
            ", the dtype of its bucket, got ", params_[i].dtype());
}

/// Runs backward and exchanges the gradients between several ranks.
void DataParallel::run_pass(const Tensor& loss, bool last, const std::string& what) {
  for (Bucket& bucket : buckets_) {
    bucket.gradients.assign(bucket.params.size(), Tensor());
    bucket.ready = 0;
    if (first_pass_) bucket.in_sum.assign(bucket.params.size(), 0);
  }
  what_ = what;
  last_ = last;
  sent_ = 0;
  std::unique_lock lock(mutex_);
  queued_ = done_ = 0;
  lock.unlock();
  arriving_ = -1;
  running_ = true;
  loss.backward();
  if (arriving_ >= 0) take(static_cast<size_t>(arriving_));
  send_ready(true);
  wait();
  running_ = false;
  for (const Bucket& bucket : buckets_)
    for (size_t k = 0; k < bucket.params.size(); ++k)
      params_[bucket.params[k]].set_grad(last && bucket.in_sum[k] ? bucket.gradients[k] : Tensor());
  for (Bucket& bucket : buckets_) bucket.gradients.clear();
}

/// Called before backward stores the gradient of `param`. Takes the gradient of the previous such
/// parameter, which backward has stored by now.
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

/// Passes to the thread the buckets whose gradients are complete, or all buckets if `all`. The
/// order is the same on all ranks.
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

namespace {
/// out[i] = the sum of from[0][i], from[1][i], ..., added in this order. `out` may be one of them.
template <class T>
void add_up(const std::vector<WritableBytes>& from, T* out, int64_t n) {
  constexpr int64_t block = 2048;
  T sum[block];
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t count = std::min(block, n - begin);
    for (size_t k = 0; k < from.size(); ++k) {
      const T* x = reinterpret_cast<const T*>(from[k].data()) + begin;
      if (k == 0)
        std::copy_n(x, count, sum);
      else
        simd_for(count, [s = sum, x](int64_t i) { s[i] += x[i]; });
    }
    std::copy_n(sum, count, out + begin);
  }
}
}  // namespace

/// Replaces the bucket's gradients by their sums over all ranks and passes or, before the last
/// pass, adds this rank's part of them to the bucket's sum.
void DataParallel::exchange(Bucket& b) {
  const auto ranks = static_cast<size_t>(communicator_.size());
  const auto own = static_cast<size_t>(communicator_.rank());
  const std::vector<std::vector<char>> present = gather_present(b);
  // Each rank receives its part of the gradients from all.
  const std::vector<Slice> part = slices(b, own);
  std::vector<SentPieces> send(ranks);
  std::vector<ReceivedPieces> receive(ranks);
  received_.resize(std::max(received_.size(), ranks * part_bytes(b, own)));
  std::vector<std::vector<WritableBytes>> inputs(part.size());  // by slice, in the ranks' order
  for (size_t i = 0, at = 0; i < ranks; ++i) {
    for (const Slice& s : slices(b, i))
      if (present[own][s.index]) send[i].push_back(s.of(b.gradients[s.index]));
    for (size_t k = 0; k < part.size(); ++k) {
      if (!present[i][part[k].index]) continue;
      const WritableBytes from = i == own ? part[k].of(b.gradients[part[k].index])
                                          : WritableBytes(received_).subspan(at, part[k].bytes());
      inputs[k].push_back(from);
      if (i == own) continue;
      receive[i].push_back(from);
      at += from.size();
    }
  }
  communicator_.all_to_all(send, receive, what_);
  if (!last_) b.sum.resize(part_bytes(b, own));
  for (size_t k = 0; k < b.params.size() && last_; ++k)
    if (!b.gradients[k].defined()) b.gradients[k] = empty(params_[b.params[k]].shape(), b.dtype);
  add(b, part, inputs);
  for (const std::vector<char>& flags : present)
    for (size_t k = 0; k < flags.size(); ++k) b.in_sum[k] = b.in_sum[k] || flags[k];
  if (!last_) return;

  // Each rank sends the sum of its part to all.
  for (size_t i = 0; i < ranks; ++i) {
    send[i].clear(), receive[i].clear();
    for (const Slice& s : part)
      if (b.in_sum[s.index]) send[i].push_back(s.of(b.gradients[s.index]));
    for (const Slice& s : slices(b, i))
      if (b.in_sum[s.index]) receive[i].push_back(s.of(b.gradients[s.index]));
  }
  communicator_.all_to_all(send, receive, what_);
}

size_t DataParallel::part_bytes(const Bucket& b, size_t rank) const {
  size_t bytes = 0;
  for (const Slice& s : slices(b, rank)) bytes += s.bytes();
  return bytes;
}

/// Returns the slices of the parameters in a rank's part of the bucket.
std::vector<DataParallel::Slice> DataParallel::slices(const Bucket& b, size_t rank) const {
  const int64_t n = b.begins.back(), ranks = communicator_.size();
  const int64_t begin = n * static_cast<int64_t>(rank) / ranks,
                end = n * (static_cast<int64_t>(rank) + 1) / ranks;
  std::vector<Slice> found;
  for (size_t k = 0; k < b.params.size(); ++k) {
    const int64_t from = std::clamp(begin, b.begins[k], b.begins[k + 1]),
                  to = std::clamp(end, b.begins[k], b.begins[k + 1]);
    if (from < to) found.push_back({k, from - b.begins[k], to - from, size_of(b.dtype)});
  }
  return found;
}

/// Returns, for each rank and each gradient of the bucket, whether the rank has the gradient.
std::vector<std::vector<char>> DataParallel::gather_present(const Bucket& b) {
  std::vector<char> own;
  for (const Tensor& g : b.gradients) own.push_back(g.defined());
  std::vector<std::vector<char>> all(static_cast<size_t>(communicator_.size()), own);
  std::vector<ReceivedPieces> receive;
  for (std::vector<char>& flags : all)
    receive.push_back({std::as_writable_bytes(std::span(flags))});
  const SentPieces send{std::as_bytes(std::span(own))};
  communicator_.all_to_all(std::vector(all.size(), send), receive, what_);
  return all;
}

/// Adds up each slice of this rank's part: the sum of the passes before, then `inputs`. The result
/// is in the gradients after the last pass, else in the bucket's sum.
void DataParallel::add(Bucket& b, const std::vector<Slice>& part,
                       const std::vector<std::vector<WritableBytes>>& inputs) const {
  size_t at = 0;
  for (size_t k = 0; k < part.size(); ++k) {
    WritableBytes before;  // the passes before
    if (!last_ || !first_pass_) before = WritableBytes(b.sum).subspan(at, part[k].bytes());
    at += part[k].bytes();
    std::vector<WritableBytes> from = inputs[k];
    if (b.in_sum[part[k].index]) from.insert(from.begin(), before);
    if (from.empty()) continue;
    const WritableBytes into = last_ ? part[k].of(b.gradients[part[k].index]) : before;
    dispatch_floating("DataParallel", b.dtype, [&]<class T>(TypeTag<T>) {
      add_up<T>(from, reinterpret_cast<T*>(into.data()), part[k].count);
    });
  }
}

}  // namespace gradus::optim
