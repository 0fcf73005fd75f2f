#pragma once
// What BERT is trained with.

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

/// B examples of T tokens: [CLS] A [SEP] B [SEP], then [PAD].
struct MaskedBatch {
  Tensor ids;       ///< (B, T) int64
  Tensor segments;  ///< (B, T) int64: 0 up to the first [SEP], 1 up to the second one, then 0
  Tensor mask;      ///< (B, T) bool: true but for [PAD]
  Tensor targets;   ///< (B, T) int64: what stood there, where it is to be told; else -100
  Tensor is_next;   ///< (B) int64: 1 where B follows A in the text, 0 where it is from elsewhere
};

struct MaskedPairsOptions {
  int64_t length = 128;     ///< T
  int64_t segment = 0;      ///< tokens of a segment; 0: a segment is a line of the text
  double rate = 0.15;       ///< the share of the tokens of A and B that is to be told; of these
  double masked = 0.8;      ///< so many read [MASK],
  double random = 0.1;      ///< so many read another token, any but the special ones; the rest stay
  double validation = 0.1;  ///< the share of the text, from its end, that is held out
};

/// Masked tokens and next sentences: Devlin et al. 2019, arXiv 1810.04805, sections 3.1 and A.1.
///
/// A text is divided into documents, by empty lines, and these into segments: lines, or pieces of
/// so many tokens. Longer ones are cut in equal pieces of at most (T - 3) / 2 tokens. A is one
/// segment or several that follow each other, as many as go into half of an example; B begins with
/// the segment behind A or, in half of the examples, with one of another document (of another
/// place, where the part has but one document), and goes on until the example is full. round(rate
/// n) of the n ordinary tokens of A and B are to be told, at least one. An example is of one part
/// alone: the parts share no segment.
class MaskedPairs {
 public:
  /// What became of a text.
  struct Report {
    int64_t documents = 0, segments = 0, tokens = 0;  ///< of the text given
    int64_t unknown = 0;                              ///< how many of the tokens are [UNK]
    int64_t lone = 0;  ///< documents of one segment, which can only be from elsewhere
    int64_t train_tokens = 0, validation_tokens = 0;  ///< of each part
  };

  /// The tokenizer needs [PAD], [CLS], [SEP] and [MASK]. The end of the text is held out from the
  /// document's end on that is nearest; within a document if that would make the part half as long
  /// or twice as long as asked for. Throws Error if a special token is missing, naming the line if
  /// the tokenizer refuses one, and if a part has too few segments to make both kinds of pairs.
  MaskedPairs(const std::string& text, const Tokenizer& tokenizer,
              const MaskedPairsOptions& options = {});

  const Report& report() const { return report_; }  ///< of the text given
  /// `batch` examples that begin at random segments of a part: a function of (seed, step, index)
  /// alone, with TextData::random_batch's limits.
  MaskedBatch random_batch(Split part, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Examples that go through all of a part, document after document, with the same pairs and masks
  /// whenever asked: from the first-th on, at most `batch` of them.
  MaskedBatch examples(Split part, int64_t first, int64_t batch) const;
  int64_t num_examples(Split part) const { return std::ssize(of(part).examples); }  ///< of a part

 private:
  struct Segment {
    int64_t begin, end;  // in tokens_
  };
  struct Range {
    int64_t first, last;  // segments of a document, or of a part of one
  };
  struct Example {
    int64_t document, first;  // where A begins
    bool is_next;
  };
  struct SplitData {
    std::vector<Range> documents;
    std::vector<Example> starts;    // all segments with another one behind them
    std::vector<Example> examples;  // through the whole part
  };
  const SplitData& of(Split part) const { return part == Split::train ? train_ : validation_; }
  void read(const std::string& text, const Tokenizer& tokenizer);
  void add_segments(const std::string& text, const Tokenizer& tokenizer, int64_t line);
  void split(const std::vector<Range>& documents);
  void prepare(SplitData& data, Split part) const;
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
  std::vector<bool> is_special_;   // by id
  std::vector<int32_t> ordinary_;  // ids that are not special
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  SplitData train_, validation_;
  Report report_;
};

}  // namespace gradus::models
