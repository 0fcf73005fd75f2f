#include "gradus/nn/key_value_cache.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::nn {

KeyValueCache::KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                             Dtype dtype, int64_t value_dim) {
  check(batch > 0 && kv_heads > 0 && capacity > 0 && key_dim > 0 && value_dim >= 0,
        "KeyValueCache: expected sizes > 0, got ", Shape{batch, kv_heads, capacity, key_dim});
  k_ = empty({batch, kv_heads, capacity, key_dim}, dtype);
  v_ = empty({batch, kv_heads, capacity, value_dim == 0 ? key_dim : value_dim}, dtype);
}

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  const Shape expected{k_.size(0), k_.size(1), k.rank() == 4 ? k.size(2) : 0, k_.size(3)};
  const Shape expected_values = expected.with(-1, v_.size(3));
  check(k.shape() == expected && v.shape() == expected_values,
        "KeyValueCache: expected keys and values ", expected, " and ", expected_values, ", got ",
        k.shape(), " and ", v.shape());
  check(!grad_enabled(),
        "KeyValueCache: gradients do not flow through a cache; use it under NoGrad");
  check(k.size(2) <= capacity() - length_, "KeyValueCache: ", length_, " + ", k.size(2),
        " tokens do not fit a capacity of ", capacity());
  const int64_t end = length_ + k.size(2);
  k_.slice(2, length_, end).copy_(k);
  v_.slice(2, length_, end).copy_(v);
  length_ = end;
}

void KeyValueCache::reorder(const Tensor& rows) {
  check(rows.shape() == Shape{k_.size(0)}, "KeyValueCache: expected ", k_.size(0),
        " row indices, got ", rows.shape());
  for (const Tensor& x : {keys(), values()}) x.copy_(index_select(x, 0, rows));
  for (Tensor& last : last_tokens_)
    if (last.defined()) last = index_select(last, 0, rows);
}

Tensor KeyValueCache::previous_tokens(size_t sublayer, const Tensor& x) {
  check(!grad_enabled(),
        "KeyValueCache: gradients do not flow through a cache; use it under NoGrad");
  Tensor& last = last_tokens_.at(sublayer);
  check(x.rank() == 3 && x.size(0) == k_.size(0) && x.size(1) > 0, "KeyValueCache: expected x (",
        k_.size(0), ", T, dim), got ", x.shape());
  const Tensor before = last.defined() ? last : zeros({x.size(0), 1, x.size(2)}, x.dtype());
  last = x.slice(1, -1).clone();
  return cat({before, x.slice(1, 0, -1)}, 1);
}

void KeyValueCache::clear() {
  length_ = 0;
  last_tokens_ = {};
}

}  // namespace gradus::nn
