#pragma once
// Pre-training data for BERT: pairs of passages for masked-token and next-sentence prediction.

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

/// N examples of T tokens each: [CLS] A [SEP] B [SEP], then [PAD]. A and B are passages of text.
struct MaskedBatch {
  Tensor ids;       ///< (N, T) int64
  Tensor segments;  ///< (N, T) int64: 1 for B and the [SEP] after it, 0 elsewhere
  Tensor mask;      ///< (N, T) bool: false at [PAD]
  Tensor targets;   ///< (N, T) int64: the original token if it is to be predicted, else -100
  Tensor is_next;   ///< (N) int64: 1 if B follows A in the text, 0 if B is from elsewhere
};

struct MaskedPairsOptions {
  int64_t length = 128;     ///< T, the number of tokens per example, 5 to 2^20
  int64_t segment = 0;      ///< maximum tokens per segment of the text; 0: each line is a segment
  double rate = 0.15;       ///< fraction of the non-special tokens to predict, above 0, at most 1
  double masked = 0.8;      ///< probability that a predicted token becomes [MASK]
  double random = 0.1;      ///< probability that a predicted token becomes a random ordinary token
  double validation = 0.1;  ///< fraction of the text to hold out, taken from its end; in [0, 1)
};

/// Training examples for masked-token and next-sentence prediction: Devlin et al. 2019, arXiv
/// 1810.04805, sections 3.1 and A.1. T is the length of an example, options.length.
///
/// Blank lines divide a text into documents, and a document consists of segments. If
/// options.segment is 0, each line is a segment; a line of more than (T - 3) / 2 tokens is divided
/// into segments of nearly equal length. (An example has one [CLS] and two [SEP].) If
/// options.segment is above 0, each document is divided into segments of nearly equal length, with
/// at most options.segment tokens; options.segment must be at most (T - 3) / 2. Each segment is in
/// one split only, but a line that occurs twice in the text may be in both splits.
///
/// Passage A consists of consecutive segments of a document: as many as fit in (T - 3) / 2 tokens,
/// at least one, but never the document's last segment. With probability 1/2, passage B starts with
/// the segment after A. Otherwise B starts with a random segment of another document. B ends at the
/// end of its document, or before the first segment that does not fit into the example.
///
/// If a split has only one document, A leaves out at least two of the document's segments. A
/// passage B that does not follow A then starts with a random segment of the same document, neither
/// in A nor right after A. If this B starts before A, it also ends before A.
///
/// Special tokens such as [UNK] are never predicted; all other tokens are ordinary. Of the n
/// ordinary tokens of A and B, round(options.rate n) are predicted, at least one if n > 0. A
/// predicted token becomes [MASK] with probability options.masked and a random ordinary token with
/// probability options.random; otherwise it stays unchanged. The sum of the two probabilities must
/// be at most 1.
class MaskedPairs {
 public:
  /// Statistics of the text.
  struct Report {
    int64_t documents = 0, segments = 0, tokens = 0;  ///< counts for the whole text
    int64_t unknown = 0;                              ///< number of tokens that are [UNK]
    int64_t lone = 0;  ///< number of documents that consist of a single segment
    int64_t train_tokens = 0, validation_tokens = 0;  ///< number of tokens in each split
  };

  /// Encodes the text. The tokenizer needs [PAD], [CLS], [SEP] and [MASK].
  ///
  /// The training split is the first part of the text, and the validation split is the rest. In a
  /// text of n tokens, the validation split should have v = options.validation * n tokens and start
  /// at token c = n - v. To keep documents whole, it starts at the document boundary nearest to
  /// token c, if it then has from v / 2 to 2 v tokens and is not the whole text. Otherwise it
  /// starts with the segment that contains token c. If options.validation is 0, the validation
  /// split is empty.
  ///
  /// Throws Error if a special token is missing, if an option is out of range, or if a split has
  /// too few segments for examples of both kinds (B follows A, B does not follow A). Also throws
  /// Error if the tokenizer rejects a line. The message then gives the line's number or, if
  /// options.segment is above 0, the number of the document's first line.
  MaskedPairs(const std::string& text, const Tokenizer& tokenizer,
              const MaskedPairsOptions& options = {});

  const Report& report() const { return report_; }  ///< statistics of the whole text
  /// Returns `batch` examples that begin at random segments of a split. The choice depends only on
  /// the arguments. If a training step uses several batches, `index` tells them apart. Throws Error
  /// if the split is empty, or unless 1 <= batch <= 2^16, 0 <= step < 2^32 and 0 <= index < 2^16.
  MaskedBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Returns up to `batch` consecutive examples of a split, beginning with example `first`.
  /// Examples 0 to num_examples(split) - 1 form one pass through the split, with the same passages
  /// and masks on every call. The pass skips documents of one segment. If a single segment is left
  /// at the end of a document, an extra example uses this segment as B and the segment before it as
  /// A. Throws Error unless 0 <= first < num_examples(split) and batch >= 1.
  MaskedBatch examples(Split split, int64_t first, int64_t batch) const;
  /// Returns the number of examples in one pass through a split (see examples()).
  int64_t num_examples(Split split) const { return std::ssize(of(split).examples); }

 private:
  struct Segment {
    int64_t begin, end;  // indices in tokens_
  };
  struct Range {
    int64_t first, last;  // segments [first, last): a document or a part of one
  };
  struct Example {
    int64_t document, first;  // indices of the document and of the first segment of A
    bool is_next;
  };
  struct SplitData {
    std::vector<Range> documents;
    std::vector<Example> starts;    // one per segment that is not the last of its document
    std::vector<Example> examples;  // the examples of one pass through the split
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
  std::vector<bool> is_special_;   // indexed by token id
  std::vector<int32_t> ordinary_;  // ids of the tokens that are not special
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  SplitData train_, validation_;
  Report report_;
};

}  // namespace gradus::models
