#pragma once
// Pre-training data for BERT: masked tokens and next sentences.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

namespace internal {
class Draws;
}

/// N examples of T tokens: [CLS] A [SEP] B [SEP], then [PAD]. A and B are passages of text.
struct MaskedBatch {
  Tensor ids;       ///< (N, T) int64
  Tensor segments;  ///< (N, T) int64: 0 through the first [SEP], 1 through the second, then 0
  Tensor mask;      ///< (N, T) bool: false at [PAD]
  Tensor targets;   ///< (N, T) int64: the original token where it is predicted, else -100
  Tensor is_next;   ///< (N) int64: 1 if B follows A in the text, 0 if B is from elsewhere
};

struct MaskedPairsOptions {
  int64_t length = 128;  ///< T, the number of tokens per example, 5 to 2^20
  int64_t segment = 0;   ///< maximum tokens per segment, at most (length - 3) / 2; 0: segments are
                         ///< lines, see MaskedPairs
  double rate = 0.15;    ///< fraction of the tokens of A and B to predict, above 0 and at most 1
  double masked = 0.8;   ///< probability that a predicted token becomes [MASK]
  double random = 0.1;   ///< probability that a predicted token becomes a random ordinary token;
                         ///< the remaining tokens stay unchanged; masked + random is at most 1
  double validation = 0.1;  ///< fraction of the text to hold out, taken from its end, in [0, 1)
};

/// Pre-training with masked tokens and next sentences: Devlin et al. 2019, arXiv 1810.04805,
/// sections 3.1 and A.1.
///
/// Blank lines divide a text into documents. A document consists of segments. If `segment` is above
/// 0, segments are nearly equal pieces of the document, of at most `segment` tokens. Otherwise each
/// line is a segment, but lines of more than (T - 3) / 2 tokens are divided into nearly equal
/// pieces. (Three tokens of an example are special.) Each segment is in one split only, but a line
/// that occurs twice may be in both.
///
/// A consists of as many consecutive segments as fit in (T - 3) / 2 tokens, at least one, but never
/// contains the last segment of its document. If the split has only one document, at least two of
/// its segments are not in A. With probability 1/2, B starts with the segment after A. Otherwise B
/// starts with a random segment of another document or, if the split has only one document, with a
/// segment of this document that is neither in A nor right after A. B ends before the first
/// segment that does not fit into the example, at the end of its document, or at the start of A.
///
/// round(rate n) of the n ordinary tokens of A and B are predicted, at least one if n > 0; special
/// tokens such as [UNK] are not.
class MaskedPairs {
 public:
  /// Statistics of the text.
  struct Report {
    int64_t documents = 0, segments = 0, tokens = 0;  ///< in the whole text
    int64_t unknown = 0;                              ///< tokens that are [UNK]
    int64_t lone = 0;  ///< documents of one segment, used only as a B that does not follow A
    int64_t train_tokens = 0, validation_tokens = 0;  ///< tokens in each split
  };

  /// Encodes the text. The tokenizer needs [PAD], [CLS], [SEP] and [MASK].
  ///
  /// The held-out text starts at the document boundary nearest to token c = (1 -
  /// options.validation) n of the text's n tokens. If this would hold out all tokens, or a share
  /// below half or above twice options.validation, the held-out text starts with the segment that
  /// contains token c instead. With options.validation = 0, the validation split is empty.
  ///
  /// Throws Error if a special token is missing, if an option is out of range, if a split has too
  /// few segments for examples of both kinds (B follows A, B does not follow A), or if the
  /// tokenizer rejects a line. In the last case the message names the line or, if `segment` is
  /// above 0, the first line of its document.
  MaskedPairs(const std::string& text, const Tokenizer& tokenizer,
              const MaskedPairsOptions& options = {});

  const Report& report() const { return report_; }  ///< statistics of the whole text
  /// Returns `batch` examples that begin at random segments of a split. They depend only on the
  /// split and (seed, step, index). The arguments and their limits are those of
  /// TextData::random_batch. Throws Error if the split is empty.
  MaskedBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Returns up to `batch` consecutive examples, beginning with number `first`, of a pass through a
  /// split. The pass skips documents of one segment. Pairs and masks are the same on every call. If
  /// one segment of a document is left at the end, it becomes the B of one more example, whose A is
  /// the segment before it. Throws Error unless 0 <= first < num_examples(split) and batch >= 1.
  MaskedBatch examples(Split split, int64_t first, int64_t batch) const;
  /// Returns the number of examples in a pass through a split.
  int64_t num_examples(Split split) const { return std::ssize(of(split).examples); }

 private:
  struct Segment {
    int64_t begin, end;  // indices in tokens_
  };
  struct Range {
    int64_t first, last;  // segments first ... last - 1: a document or a part of one
  };
  struct Example {
    int64_t document, first;  // index in `documents`; A begins with segments_[first]
    bool is_next;
  };
  struct SplitData {
    std::vector<Range> documents;
    std::vector<Example> starts;    // one per segment that has a successor in its document
    std::vector<Example> examples;  // examples of a pass through the whole split
  };
  const SplitData& of(Split split) const { return split == Split::train ? train_ : validation_; }
  void read(const std::string& text, const Tokenizer& tokenizer);
  void add_segments(const std::string& text, const Tokenizer& tokenizer, int64_t line);
  void split(const std::vector<Range>& documents);
  void prepare(SplitData& data, Split split) const;
  int64_t tokens_of(const Range& range) const;
  int64_t fill(int64_t first, int64_t last, int64_t tokens) const;
  int64_t end_of_a(const SplitData& data, const Example& example) const;
  Range elsewhere(const SplitData& data, const Example& example, int64_t end_of_a,
                  internal::Draws& draws) const;
  void write_row(const SplitData& data, const Example& example, internal::Draws& draws,
                 const MaskedBatch& batch, int64_t row) const;
  void mask_row(int64_t length, internal::Draws& draws, int64_t* ids, int64_t* targets) const;
  MaskedBatch empty_batch(int64_t rows) const;

  MaskedPairsOptions options_;
  int64_t pad_, cls_, sep_, mask_;
  std::vector<bool> is_special_;   // indexed by id
  std::vector<int32_t> ordinary_;  // ids that are not special
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  SplitData train_, validation_;
  Report report_;
};

}  // namespace gradus::models
