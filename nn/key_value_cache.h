#pragma once
// A cache of the keys and values of the tokens read so far, for token-by-token decoding.

#include <array>
#include <exception>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// The keys and values of T tokens for each of Hk key/value heads.
struct KeysAndValues {
  Tensor keys, values;  ///< (B, Hk, T, key_dim); (B, Hk, T, value_dim)
};

/// Keys and values of the tokens read so far, for Hk heads, in memory that grows by doubling. All
/// sequences have the same length unless add_row() adds one of another length. The cache is movable
/// but not copyable: a copy would share the memory but not the lengths.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// Makes an empty cache for `batch` sequences of up to `capacity` tokens. A value_dim of 0 means
  /// key_dim.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                Dtype dtype = float32, int64_t value_dim = 0);
  /// Appends to each sequence the keys k (B, Hk, T, key_dim) and values v (B, Hk, T, value_dim) of
  /// T tokens, with the cache's dtype. Throws Error, with nothing changed, for other shapes or
  /// dtypes, if the tokens exceed the capacity, or if gradients are being recorded.
  void append(const Tensor& k, const Tensor& v);
  /// Returns a view of the cached keys, (B, Hk, length, key_dim). Positions after the end of a
  /// shorter sequence contain arbitrary numbers, which may be NaN.
  Tensor keys() const { return view(k_); }
  Tensor values() const { return view(v_); }  ///< the cached values, (B, Hk, length, value_dim)
  /// Returns the bool attention mask (B, 1, 1, length) for the last token of each sequence. It is
  /// true at all keys of the sequence or, if window > 0, only at the last `window` keys.
  Tensor visible_to_last(int64_t window) const;
  /// Returns the number of cached tokens of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t length() const;  ///< number of cached tokens of the longest sequence
  bool uneven() const;     ///< whether the sequences differ in length
  int64_t capacity() const { return capacity_; }  ///< maximum number of tokens per sequence
  /// Returns the features of the token before each token of x (B, T, dim): (B, T, dim).
  /// token_shift() calls this function. x contains the next T >= 1 tokens of the sequences, at the
  /// input of attention (sublayer 0) or of the MLP (sublayer 1) in a transformer block. The token
  /// before x's first token is the one saved last for this sublayer, or 0 if none was saved. If
  /// `save`, saves the last token of x for the next call with the same sublayer. Throws Error, with
  /// nothing changed, if gradients are being recorded, if `sublayer` is above 1, if B is not the
  /// number of sequences, if T is 0, or if x differs from the saved token in dim or dtype.
  Tensor previous_tokens(size_t sublayer, const Tensor& x, bool save = true);
  /// Replaces every sequence i by the old sequence rows[i], as beam search requires. `rows` is
  /// int64 (B), and may contain an index more than once.
  void reorder(const Tensor& rows);
  /// Appends a copy of the only sequence of `other`. Throws Error unless `other` was constructed
  /// for one sequence, with the number of heads, key_dim, value_dim and dtype of this cache. Also
  /// throws Error if that sequence was removed or is longer than this cache's capacity, or if this
  /// cache already has as many sequences as it was constructed for.
  void add_row(const KeyValueCache& other);
  /// Removes sequence `row`. The last sequence then has index `row`. Throws Error if there is no
  /// such sequence.
  void remove_row(int64_t row);
  /// Removes the tokens of all sequences; the number of sequences stays the same.
  void clear();
  /// A scope guard. If an exception leaves its scope, the destructor removes the tokens that were
  /// appended to `cache` since the guard was constructed.
  struct Rollback {
    KeyValueCache* const cache;  ///< the cache to restore; may be null
    /// The lengths of the sequences at construction.
    const std::vector<int64_t> lengths = cache ? cache->lengths_ : std::vector<int64_t>();
    const int exceptions = std::uncaught_exceptions();  ///< uncaught exceptions at construction
    ~Rollback();
  };

 private:
  void grow(int64_t tokens);
  void fill_gaps();
  Tensor view(const Tensor& all) const {
    return all.slice(0, 0, std::ssize(lengths_)).slice(2, 0, length());
  }
  int64_t capacity_;
  Tensor k_, v_;                       // (maximum B, Hk, allocated tokens, key_dim or value_dim)
  std::vector<int64_t> lengths_;       // number of tokens of each sequence, (B)
  std::vector<int64_t> written_;       // (maximum B): tokens of each row plus the zeros after them
  std::array<Tensor, 2> last_tokens_;  // per sublayer: features of the token saved last, (B,
                                       // 1, dim), or undefined
};

}  // namespace gradus::nn
