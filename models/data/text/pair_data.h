#pragma once
// Pairs of texts as training data for a model that reads one text and writes the other.

#include <cstdint>
#include <vector>

#include "gradus/models/data/text/pair_batch.h"
#include "gradus/models/data/text/pairs.h"

namespace gradus::models {

struct PairDataOptions {
  int64_t max_source = 256;  ///< maximum tokens of a source; pairs with longer sources are left out
  int64_t max_target = 256;  ///< maximum tokens of a target, without [START] and [END]
  double validation = 0.1;   ///< fraction of the distinct sources to hold out, in [0, 1)
  uint64_t seed = 0;         ///< determines which sources are held out
};

/// Encoded pairs, divided into training pairs and validation pairs. Sources with the same tokens
/// are never in different splits. (Distinct texts can have the same tokens, because of lower-casing
/// and [UNK].) If options.validation is above 0 and at least two sources differ, at least one
/// source is held out.
class PairData : public PairSource {
 public:
  /// Counts of the pairs in both splits and of those left out.
  struct Report {
    int64_t train = 0, validation = 0;  ///< number of pairs in each split
    int64_t too_long = 0;               ///< pairs left out because source or target is too long
    int64_t empty = 0;                  ///< pairs left out because source or target has no tokens
    int64_t held_out = 0;               ///< training pairs left out because a validation pair
                                        ///< has the same source tokens
    int64_t source_tokens = 0, target_tokens = 0;      ///< number of tokens in both splits
    int64_t unknown_sources = 0, unknown_targets = 0;  ///< number of [UNK] tokens in both splits
    int64_t longest_source = 0, longest_target = 0;    ///< length in tokens, without [START], [END]
  };

  /// Encodes the pairs and chooses which to hold out. The source tokenizer needs [PAD]. The target
  /// tokenizer needs [PAD], [START] and [END]. Throws Error if a special token is missing, if an
  /// option is out of range, or if no training pair is left. Also throws Error if a tokenizer
  /// rejects a text; the message then gives the index of the pair.
  PairData(const std::vector<TextPair>& pairs, const Tokenizer& source, const Tokenizer& target,
           const PairDataOptions& options = {});
  /// Encodes pairs that are already split. A training pair is left out, and counted in
  /// Report::held_out, if a pair in the validation split has the same source tokens. Ignores
  /// options.validation and options.seed. Throws the same errors as the other constructor; the
  /// message about a rejected text also says whether it is from a training or a validation pair.
  PairData(const std::vector<TextPair>& train, const std::vector<TextPair>& validation,
           const Tokenizer& source, const Tokenizer& target, const PairDataOptions& options = {});

  const Report& report() const { return report_; }  ///< counts of pairs kept and left out
  /// Returns the number of pairs in a split.
  int64_t num_pairs(Split split) const override { return std::ssize(entries(split)); }
  int64_t longest_target() const override { return report_.longest_target; }
  /// Returns the index that pair i of a split has in the vector passed to the constructor. If two
  /// vectors were passed, the index refers to the vector of this split. Throws Error if there is no
  /// pair i.
  int64_t original(Split split, int64_t i) const;

 private:
  struct Entry {
    int64_t source, target, end;  // indices in tokens_: start of source, start and end of target
    int64_t original;
  };
  TokenPair pair(Split split, int64_t i, RandomKey key) const override;
  std::vector<Entry> encode(const std::vector<TextPair>& pairs, const Tokenizer& source,
                            const Tokenizer& target, const PairDataOptions& options,
                            const char* kind);
  void finish(const Tokenizer& source, const Tokenizer& target);
  const std::vector<Entry>& entries(Split split) const {
    return split == Split::train ? train_ : validation_;
  }

  std::vector<int32_t> tokens_;
  std::vector<Entry> train_, validation_;
  Report report_;
};

}  // namespace gradus::models
