#pragma once
// Keys and values of the tokens read so far, for token-by-token decoding.

#include <array>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// Keys and values of T tokens for each of Hk key/value heads.
struct KeysAndValues {
  Tensor keys, values;  ///< (B, Hk, T, key_dim); (B, Hk, T, value_dim)
};

/// Keys and values of the tokens read so far, Hk heads each, in memory that grows by doubling.
/// Sequences have one length unless add_row() brought others. Movable but not copyable: a copy would share the
/// memory but not the lengths.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// An empty cache for `batch` sequences of up to `capacity` tokens. A value_dim of 0 means
  /// key_dim.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                Dtype dtype = float32, int64_t value_dim = 0);
  /// Appends the keys k (B, Hk, T, key_dim) and values v (B, Hk, T, value_dim) of T tokens to each
  /// sequence. Throws Error if they exceed the capacity, or while gradients are recorded.
  void append(const Tensor& k, const Tensor& v);
  /// A view of the cached keys: (B, Hk, length, key_dim). Those after a shorter sequence's end are
  /// arbitrary finite numbers.
  Tensor keys() const { return view(k_); }
  Tensor values() const { return view(v_); }  ///< as keys(): (B, Hk, length, value_dim)
  /// The mask of each sequence's last token: true for its own keys, or the last `window` of them if
  /// window > 0; (B, 1, 1, length).
  Tensor visible_to_last(int64_t window) const;
  /// Tokens cached of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t length() const;                         ///< tokens cached of the longest sequence
  bool uneven() const;                            ///< whether lengths differ
  int64_t capacity() const { return capacity_; }  ///< maximum number of tokens
  /// For blocks with token_shift: the token before each of a sublayer's next tokens x (B, T, dim),
  /// which is 0 before the first token. Remembers the last of x for the next call. A block's
  /// sublayers are 0 and 1.
  Tensor previous_tokens(size_t sublayer, const Tensor& x);
  /// Replaces each sequence i by the former sequence rows[i]; rows (B) int64.
  void reorder(const Tensor& rows);
  /// Appends a copy of the only sequence of `other`. Throws Error if the memory is full or the sizes
  /// differ.
  void add_row(const KeyValueCache& other);
  /// Removes sequence `row`; the last one takes its index.
  void remove_row(int64_t row);
  /// Removes all tokens.
  void clear();

 private:
  void grow(int64_t tokens);
  void fill_gaps();
  Tensor view(const Tensor& all) const {
    return all.slice(0, 0, std::ssize(lengths_)).slice(2, 0, length());
  }
  int64_t capacity_;
  Tensor k_, v_;                       // (largest B, Hk, room, key_dim or value_dim)
  std::vector<int64_t> lengths_;       // (B)
  std::vector<int64_t> written_;       // (largest B): tokens of each row's memory that hold numbers
  std::array<Tensor, 2> last_tokens_;  // of each sublayer: (B, 1, dim), or undefined if none
};

}  // namespace gradus::nn
