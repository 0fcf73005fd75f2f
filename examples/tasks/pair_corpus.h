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
  /// `pairs` is the path of a file for read_pairs(). If it is empty, pairs are generated as `data`
  /// specifies. `text` is the text for PairTask::denoise, a path for read_text() (empty: gradus's
  /// own source). PairTask::denoise does not read `pairs`, and the other tasks do not read `text`.
  std::string pairs, text;
  int64_t count = 20000;
  bool skip_bad = false;
  TokenizerOptions tokenizer;
};

/// Declares --data, --pairs, --text, --count, --skip-bad and the flags of the tokenizer.
void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& options);
/// Throws Error if the command line gives one of these flags although it has no effect.
void check_pair_corpus_flags(const Flags& flags, const PairCorpusOptions& options);

/// Pairs of token sequences. Both sides use the same tokenizer.
struct PairCorpus {
  std::string about;  ///< lines for the log: numbers of pairs and of unknown tokens
  std::string id;     ///< identifies the data
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::unique_ptr<models::PairSource> pairs;
};

/// Reads or generates the pairs for a model whose context length is `context`. Loads the tokenizer
/// from the folder `begins_with` or, if that is "", from options.tokenizer.folder(). If both are
/// "", builds the tokenizer from the text of the pairs. `seed` determines the generated pairs and
/// the validation split. With options.skip_bad, prints why lines of the --pairs file were skipped:
/// for each reason, the number of lines and the line number of the first. Throws Error if a file
/// cannot be read, or if no pair is left for validation.
PairCorpus make_pair_corpus(const PairCorpusOptions& options, const std::string& begins_with,
                            int64_t context, uint64_t seed);

}  // namespace gradus
