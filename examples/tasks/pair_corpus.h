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
  /// Paths. Without `pairs`, pairs are generated as `data` says. denoise reads `text`; empty:
  /// gradus's own source.
  std::string pairs, text;
  int64_t count = 20000;
  bool skip_bad = false;
  TokenizerOptions tokenizer;
};

/// Declares --data, --pairs, --text, --count, --skip-bad and the tokenizer's flags.
void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& options);

/// Pairs of token sequences; both sides share a tokenizer.
struct PairCorpus {
  std::string about;  ///< lines for the log: sizes, and what was skipped
  std::string id;     ///< identifies the data
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::unique_ptr<models::PairSource> pairs;
};

/// Reads or generates the pairs for a model with this context, and their tokenizer: that of the
/// folder `begins_with` or, if that is empty, a new one. Prints which lines of the --pairs file
/// were skipped.
PairCorpus make_pair_corpus(const PairCorpusOptions& options, const std::string& begins_with,
                            int64_t context, uint64_t seed);

}  // namespace gradus
