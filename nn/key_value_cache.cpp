#include "gradus/nn/key_value_cache.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::nn {

KeyValueCache::KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                             Dtype dtype, int64_t value_dim)
    : capacity_(capacity) {
  check(batch > 0 && kv_heads > 0 && capacity > 0 && key_dim > 0 && value_dim >= 0,
        "KeyValueCache: expected sizes > 0, got ", Shape{batch, kv_heads, capacity, key_dim},
        ", and value_dim >= 0, got ", value_dim);
  const int64_t room = std::min<int64_t>(capacity, 64);  // grow() makes more
  k_ = empty({batch, kv_heads, room, key_dim}, dtype);
  v_ = empty({batch, kv_heads, room, value_dim == 0 ? key_dim : value_dim}, dtype);
  lengths_.assign(static_cast<size_t>(batch), 0);
  written_ = lengths_;
}

/// Makes room for sequences of `tokens` tokens.
void KeyValueCache::grow(int64_t tokens) {
  const int64_t before = k_.size(2);
  if (tokens <= before) return;
  const int64_t room = std::min(capacity_, std::max(tokens, 2 * before));
  const Tensor k = empty(k_.shape().with(2, room), k_.dtype());
  const Tensor v = empty(v_.shape().with(2, room), v_.dtype());
  view(k).copy_(keys());
  view(v).copy_(values());
  k_ = k, v_ = v;
  for (size_t row = 0; row < written_.size(); ++row)
    written_[row] = row < lengths_.size() ? std::min(written_[row], length()) : 0;
}

Tensor KeyValueCache::visible_to_last(int64_t window) const {
  const Tensor keys = arange(length()), ends = from_data(lengths_, {std::ssize(lengths_), 1, 1, 1});
  const Tensor own = lt(keys, ends);
  return window > 0 ? logical_and(own, ge(keys, ends - window)) : own;
}

int64_t KeyValueCache::length() const {
  return lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
}

bool KeyValueCache::uneven() const {
  return std::any_of(lengths_.begin(), lengths_.end(),
                     [this](int64_t n) { return n != lengths_.front(); });
}

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  const Shape expected{std::ssize(lengths_), k_.size(1), k.rank() == 4 ? k.size(2) : 0, k_.size(3)};
  check_tensor("KeyValueCache", "keys", k, k_.dtype(), expected);
  check_tensor("KeyValueCache", "values", v, v_.dtype(), expected.with(-1, v_.size(3)));
  check(!grad_enabled(),
        "KeyValueCache: gradients do not flow through a cache; use it under NoGrad");
  const int64_t more = k.size(2);
  check(more <= capacity() - length(), "KeyValueCache: ", length(), " + ", more,
        " tokens do not fit a capacity of ", capacity());
  grow(length() + more);
  // Sequences of one length are written together.
  const bool together = !uneven();
  const int64_t rows = std::ssize(lengths_), step = together ? std::max<int64_t>(rows, 1) : 1;
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t begin = lengths_[static_cast<size_t>(row)], end = row + step;
    auto write = [&](const Tensor& all, const Tensor& x) {
      all.slice(0, row, end).slice(2, begin, begin + more).copy_(x.slice(0, row, end));
    };
    write(k_, k);
    write(v_, v);
  }
  for (int64_t& n : lengths_) n += more;
  fill_gaps();
}

/// Writes zeros where a row, up to the longest one's length, has uninitialised memory or the tokens
/// of a removed sequence: attention multiplies the values there by 0, which must not give NaN.
void KeyValueCache::fill_gaps() {
  const int64_t end = length();
  for (size_t row = 0; row < lengths_.size(); ++row) {
    const int64_t begin = std::max(written_[row], lengths_[row]);
    if (begin < end)
      for (const Tensor& x : {k_, v_})
        x.select(0, static_cast<int64_t>(row)).slice(1, begin, end).zero_();
    written_[row] = std::max(begin, end);
  }
}

void KeyValueCache::reorder(const Tensor& rows) {
  check(rows.shape() == Shape{std::ssize(lengths_)}, "KeyValueCache: expected ", lengths_.size(),
        " row indices, got ", rows.shape());
  for (const Tensor& x : {keys(), values()}) x.copy_(index_select(x, 0, rows));
  for (Tensor& last : last_tokens_)
    if (last.defined()) last = index_select(last, 0, rows);
  const std::vector<int64_t> from = rows.to_vector<int64_t>(), before = lengths_;
  for (size_t i = 0; i < from.size(); ++i)
    lengths_[i] = written_[i] = before[static_cast<size_t>(from[i])];
}

void KeyValueCache::add_row(const KeyValueCache& other) {
  const int64_t row = std::ssize(lengths_), length = other.length();
  check(std::ssize(other.lengths_) == 1 &&
            other.k_.shape().with(2, 0) == k_.shape().with(0, 1).with(2, 0) &&
            other.v_.size(3) == v_.size(3) && other.k_.dtype() == k_.dtype() &&
            length <= capacity(),
        "KeyValueCache: expected one sequence of up to ", capacity(), " tokens for a cache ",
        k_.shape().with(2, capacity()), ", got ", other.keys().shape());
  check(row < k_.size(0), "KeyValueCache: no room for more than ", k_.size(0), " sequences");
  grow(length);
  k_.slice(0, row, row + 1).slice(2, 0, length).copy_(other.keys());
  v_.slice(0, row, row + 1).slice(2, 0, length).copy_(other.values());
  for (size_t i = 0; i < last_tokens_.size(); ++i) {
    Tensor all = last_tokens_[i], last = other.last_tokens_[i];
    if (!all.defined() && !last.defined()) continue;
    if (!all.defined()) all = zeros(last.shape().with(0, row), last.dtype());
    if (!last.defined()) last = zeros(all.shape().with(0, 1), all.dtype());
    last_tokens_[i] = cat({all, last}, 0);
  }
  lengths_.push_back(length);
  written_[static_cast<size_t>(row)] = length;
  fill_gaps();
}

void KeyValueCache::remove_row(int64_t row) {
  const int64_t last = std::ssize(lengths_) - 1;
  check(row >= 0 && row <= last, "KeyValueCache: expected a row below ", last + 1, ", got ", row);
  const int64_t length = lengths_.back();
  if (row < last)
    for (const Tensor& x : {k_, v_})
      x.select(0, row).slice(1, 0, length).copy_(x.select(0, last).slice(1, 0, length));
  for (Tensor& tokens : last_tokens_) {
    if (!tokens.defined()) continue;
    if (row < last) tokens.select(0, row).copy_(tokens.select(0, last));
    tokens = last > 0 ? tokens.slice(0, 0, last).clone() : Tensor();
  }
  lengths_[static_cast<size_t>(row)] = written_[static_cast<size_t>(row)] = length;
  lengths_.pop_back();
  fill_gaps();
}

Tensor KeyValueCache::previous_tokens(size_t sublayer, const Tensor& x, bool save) {
  check(!grad_enabled(),
        "KeyValueCache: gradients do not flow through a cache; use it under NoGrad");
  check(sublayer < last_tokens_.size(), "KeyValueCache: expected sublayer 0 or 1, got ", sublayer);
  Tensor& last = last_tokens_[sublayer];
  check(x.rank() == 3 && x.size(0) == std::ssize(lengths_) && x.size(1) > 0,
        "KeyValueCache: expected x (", lengths_.size(), ", T, dim), got ", x.shape());
  const Tensor before = last.defined() ? last : zeros({x.size(0), 1, x.size(2)}, x.dtype());
  const Tensor previous = cat({before, x.slice(1, 0, -1)}, 1);
  if (save) last = x.slice(1, -1).clone();
  return previous;
}

KeyValueCache::Rollback::~Rollback() {
  if (!cache || std::uncaught_exceptions() <= exceptions) return;
  cache->lengths_ = lengths;
  std::copy(lengths.begin(), lengths.end(), cache->written_.begin());
}

void KeyValueCache::clear() {
  std::fill(lengths_.begin(), lengths_.end(), 0);
  std::fill(written_.begin(), written_.end(), 0);
  last_tokens_ = {};
}

}  // namespace gradus::nn
