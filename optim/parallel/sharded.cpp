#include "gradus/optim/parallel/sharded.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <sstream>

#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/parallel/bytes.h"

namespace gradus::optim {

namespace {
using WritableBytes = std::span<std::byte>;

/// A tensor's dtype and shape as a line of text, empty for an undefined one.
std::string described(const Tensor& t) {
  if (!t.defined()) return "";
  std::ostringstream out;
  out << static_cast<int>(t.dtype());
  for (int i = 0; i < t.rank(); ++i) out << ' ' << t.size(i);
  return out.str();
}

/// A new tensor as described.
Tensor tensor_of(const std::string& description) {
  std::istringstream in(description);
  int dtype = 0;
  in >> dtype;
  const std::vector<int64_t> sizes{std::istream_iterator<int64_t>(in), {}};
  return empty(Shape(sizes), static_cast<Dtype>(dtype));
}

/// Bytes of several tensors, read or written one stretch after another.
class Stream {
 public:
  /// Compressed tensors are left out: they are frozen.
  explicit Stream(const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors)
      if (is_floating(t.dtype())) pieces_.push_back(bytes_of(t));
  }
  size_t left() const {
    return std::accumulate(pieces_.begin(), pieces_.end(), size_t{0},
                           [](size_t sum, WritableBytes piece) { return sum + piece.size(); });
  }
  /// Calls copy(piece, bytes) for the next stretch, where `bytes` are a part of `buffer`.
  template <class Copy>
  void next(WritableBytes buffer, const Copy& copy) {
    while (!buffer.empty()) {
      WritableBytes& piece = pieces_.front();
      const size_t n = std::min(piece.size(), buffer.size());
      copy(piece.first(n), buffer.first(n));
      piece = piece.subspan(n);
      buffer = buffer.subspan(n);
      if (piece.empty()) pieces_.erase(pieces_.begin());
    }
  }

 private:
  std::vector<WritableBytes> pieces_;
};
}  // namespace

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<Optimizer> optimizer, Communicator& communicator)
    : Optimizer("ShardedOptimizer"),
      optimizer_(std::move(optimizer)),
      communicator_(communicator),
      shares_(static_cast<size_t>(communicator.size())) {
  check(optimizer_ != nullptr, name(), ": the optimiser is null");
  std::vector<Tensor> params = parameters();
  std::stable_sort(params.begin(), params.end(),
                   [](const Tensor& a, const Tensor& b) { return a.numel() > b.numel(); });
  std::vector<int64_t> elements(shares_.size());
  for (const Tensor& p : params) {  // the largest first, each to the smallest share
    const auto smallest = std::min_element(elements.begin(), elements.end()) - elements.begin();
    shares_[static_cast<size_t>(smallest)].push_back(p);
    elements[static_cast<size_t>(smallest)] += p.numel();
  }
  std::set<const void*> owned;
  for (const Tensor& p : shares_[static_cast<size_t>(communicator.rank())]) owned.insert(&p.impl());
  optimizer_->keep_only(owned);
}

std::vector<Tensor> ShardedOptimizer::gradients() const {
  std::vector<Tensor> all;
  for (const Tensor& p : parameters())
    if (p.requires_grad() && p.grad().defined()) all.push_back(p.grad().contiguous());
  return all;
}

void ShardedOptimizer::apply(double grad_scale) {
  whole_.clear();
  try {
    optimizer_->apply(grad_scale);
    share_parameters();
  } catch (...) {
    if (communicator_.size() > 1) communicator_.abort();  // the others wait for the parameters
    throw;
  }
}

void ShardedOptimizer::keep_only(const std::set<const void*>&) {
  fail(name(), ": it is sharded already");
}

/// Sends this rank's parameters to the others and receives theirs, a few megabytes at a time.
void ShardedOptimizer::share_parameters() {
  constexpr size_t most = 4 << 20;
  const auto own = static_cast<size_t>(communicator_.rank());
  std::vector<Stream> streams;
  size_t longest = 0;
  for (const std::vector<Tensor>& share : shares_) {
    streams.emplace_back(share);
    longest = std::max(longest, streams.back().left());
    if (&share != &shares_[own])
      for (const Tensor& p : share) begin_in_place(name(), p);
  }
  std::vector<std::vector<std::byte>> buffers(shares_.size(), std::vector<std::byte>(most));
  for (size_t done = 0; done < longest; done += most) {
    std::vector<ReceivedPieces> receive;
    for (size_t i = 0; i < streams.size(); ++i)
      receive.push_back({WritableBytes(buffers[i]).first(std::min(most, streams[i].left()))});
    streams[own].next(receive[own][0], [](WritableBytes piece, WritableBytes buffer) {
      std::memcpy(buffer.data(), piece.data(), piece.size());
    });
    const std::vector<SentPieces> send(streams.size(), {receive[own][0]});
    communicator_.all_to_all(send, receive, "its updated weights");
    for (size_t i = 0; i < streams.size(); ++i)
      if (i != own)
        streams[i].next(receive[i][0], [](WritableBytes piece, WritableBytes buffer) {
          std::memcpy(piece.data(), buffer.data(), piece.size());
        });
  }
}

NamedTensors ShardedOptimizer::state_dict() const {
  return whole_.empty() ? optimizer_->state_dict() : whole_;
}

void ShardedOptimizer::gather_state() {
  NamedTensors state = optimizer_->state_dict();
  std::string own;
  for (const auto& [name, tensor] : state) own += described(tensor) + '\n';
  std::vector<std::istringstream> descriptions;
  for (const std::string& all : all_gather(communicator_, own, "its share of the state"))
    descriptions.emplace_back(all);
  const auto ranks = static_cast<size_t>(communicator_.size());
  for (auto& [name, tensor] : state) {
    std::vector<SentPieces> send(ranks);
    std::vector<ReceivedPieces> receive(ranks);
    std::vector<Tensor> received(ranks);
    for (size_t from = 0; from < ranks; ++from) {
      std::string line;
      std::getline(descriptions[from], line);
      if (from == 0 || line.empty()) continue;
      if (communicator_.rank() == static_cast<int>(from)) send[0] = {bytes_of(tensor)};
      if (communicator_.rank() != 0) continue;
      received[from] = tensor_of(line);
      receive[from] = {bytes_of(received[from])};
    }
    communicator_.all_to_all(send, receive, "its share of the state");
    for (const Tensor& other : received) {
      if (!other.defined()) continue;
      // Only counts of updates are on several ranks. Those of another rank's parameters lag behind.
      tensor = tensor.defined() ? maximum(tensor, other) : other;
    }
  }
  if (communicator_.rank() == 0) whole_ = std::move(state);
}

void ShardedOptimizer::load_state_dict(const NamedTensors& state) {
  NamedTensors own;
  std::set<std::string> others;  // names in the shares of other ranks
  for (const auto& [name, tensor] : optimizer_->state_dict())
    if (!tensor.defined()) others.insert(name);
  for (const auto& [name, tensor] : state)
    if (!others.contains(name)) own.emplace_back(name, tensor);
  optimizer_->load_state_dict(own);
  whole_.clear();
}

}  // namespace gradus::optim
