#pragma once
// Keys and values of the tokens read so far, for token-by-token decoding.

#include <array>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// Keys and values of T tokens for each of Hk key/value heads.
struct KeysAndValues {
  Tensor keys, values;  ///< (B, Hk, T, key_dim); (B, Hk, T, value_dim)
};

/// Keys and values of the tokens read so far, Hk heads each, in memory allocated once. Movable but
/// not copyable: a copy would share the memory but not the length.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// An empty cache for `batch` sequences of up to `capacity` tokens. A value_dim of 0 means
  /// key_dim.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                Dtype dtype = float32, int64_t value_dim = 0);
  /// Appends the keys k (B, Hk, T, key_dim) and values v (B, Hk, T, value_dim) of T tokens. Throws
  /// Error if they exceed the capacity, or while gradients are recorded.
  void append(const Tensor& k, const Tensor& v);
  /// A view of the cached keys: (B, Hk, length, key_dim).
  Tensor keys() const { return k_.slice(2, 0, length_); }
  Tensor values() const { return v_.slice(2, 0, length_); }  ///< (B, Hk, length, value_dim)
  int64_t length() const { return length_; }                 ///< tokens cached
  int64_t capacity() const { return k_.size(2); }            ///< maximum number of tokens
  /// For blocks with token_shift: the token before each of a sublayer's next tokens x (B, T, dim),
  /// which is 0 before the first token. Remembers the last of x for the next call. A block's
  /// sublayers are 0 and 1.
  Tensor previous_tokens(size_t sublayer, const Tensor& x);
  /// Replaces each sequence i by the former sequence rows[i]; rows (B) int64.
  void reorder(const Tensor& rows);
  /// Removes all tokens.
  void clear();

 private:
  Tensor k_, v_;  // (B, Hk, capacity, key_dim or value_dim)
  int64_t length_ = 0;
  std::array<Tensor, 2> last_tokens_;  // of each sublayer: (B, 1, dim), or undefined if none
};

}  // namespace gradus::nn
