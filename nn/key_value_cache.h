#pragma once
// Keys and values of the tokens read so far, for token-by-token decoding.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// Keys and values per head.
struct KeysAndValues {
  Tensor keys, values;  ///< (B, Hk, T, key_dim); (B, Hk, T, value_dim)
};

/// Keys and values of the tokens read so far, in memory allocated once. Movable but not copyable: a
/// copy would share the memory but not the length.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// An empty cache for `batch` sequences of up to `capacity` tokens. value_dim 0: key_dim.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                Dtype dtype = float32, int64_t value_dim = 0);
  /// Appends k and v (B, Hk, T, D) of T tokens. Throws Error if they do not fit, or while gradients
  /// are recorded.
  void append(const Tensor& k, const Tensor& v);
  /// A view of the cached keys: (B, Hk, length, key_dim).
  Tensor keys() const { return k_.slice(2, 0, length_); }
  Tensor values() const { return v_.slice(2, 0, length_); }  ///< (B, Hk, length, value_dim)
  int64_t length() const { return length_; }                 ///< tokens cached
  int64_t capacity() const { return k_.size(2); }            ///< maximum number of tokens
  /// Replaces sequence i by sequence rows[i]: rows (batch) int64.
  void reorder(const Tensor& rows);
  /// Removes all tokens.
  void clear() { length_ = 0; }

 private:
  Tensor k_, v_;  // (B, Hk, capacity, D)
  int64_t length_ = 0;
};

}  // namespace gradus::nn
