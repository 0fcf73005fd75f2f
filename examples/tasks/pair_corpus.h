#pragma once
// Pairs of texts for training a translator: flags, and reading or generating them.

#include <cstdint>
#include <memory>
#include <string>

#include "examples/support/flags.h"
#include "examples/support/tokenizers.h"
#include "gradus/models/data/text/pair_batch.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus {

enum class PairTask { dates, reversal, addition, denoise };

struct PairCorpusOptions {
  PairTask data = PairTask::dates;
  /// Paths. Without `pairs`, pairs are generated as specified by `data`. For denoise, `text` is
  /// read; an empty path means gradus's own source.
  std::string pairs, text;
  int64_t count = 20000;
  bool skip_bad = false;
  TokenizerOptions tokenizer;
};

/// Declares --data, --pairs, --text, --count, --skip-bad and the flags of the tokenizer.
void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& options);

/// Pairs of token sequences. Both sides use the same tokenizer.
struct PairCorpus {
  std::string about;  ///< lines for the log: sizes, and what was skipped
  std::string id;     ///< identifies the data
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::unique_ptr<models::PairSource> pairs;
};

/// Reads or generates the pairs for a model with this context. The tokenizer comes from the folder
/// `begins_with` or, if that is empty, is made anew. Prints which lines of the --pairs file were
/// skipped.
PairCorpus make_pair_corpus(const PairCorpusOptions& options, const std::string& begins_with,
                            int64_t context, uint64_t seed);

}  // namespace gradus
