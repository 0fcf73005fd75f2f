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
  /// `text` is the path of the text for PairTask::denoise; if empty, gradus's own source is used.
  /// `pairs` is the path of a file of pairs for the other tasks; if empty, pairs are generated as
  /// `data` specifies. See read_text() and read_pairs().
  std::string pairs, text;
  int64_t count = 20000;
  bool skip_bad = false;
  TokenizerOptions tokenizer;
};

/// Declares --data, --pairs, --text, --count, --skip-bad and the flags of the tokenizer.
void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& options);
/// Throws Error if the command line gives a flag of add_pair_corpus_flags() that has no effect, for
/// example --text without --data denoise.
void check_pair_corpus_flags(const Flags& flags, const PairCorpusOptions& options);

/// Pairs of token sequences. Both sides use the same tokenizer.
struct PairCorpus {
  std::string about;  ///< lines for the log: numbers of pairs and of unknown tokens
  std::string id;     ///< identifies the data
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::unique_ptr<models::PairSource> pairs;
};

/// Reads or generates the pairs for a model whose context length is `context`. `begins_with` is the
/// folder of the model that is trained further, or "" for a new model. Loads the tokenizer from
/// this folder or, if it is "", from options.tokenizer.folder(). If both are "", builds the
/// tokenizer from the text of the pairs. `seed` determines the generated pairs and the
/// validation split. With options.skip_bad, prints why lines of the --pairs file were skipped: for
/// each reason, the number of lines and the line number of the first. Throws Error if a file cannot
/// be read, if no pair is left for validation, or if `context` is below 4 for PairTask::denoise.
PairCorpus make_pair_corpus(const PairCorpusOptions& options, const std::string& begins_with,
                            int64_t context, uint64_t seed);

}  // namespace gradus
