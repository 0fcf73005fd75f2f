#pragma once
// What a program that trains a translator learns from: its flags, and how it is read or made.

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
  std::string pairs, text;  ///< files; empty: made here, the library's own source
  int64_t count = 20000;
  bool skip_bad = false;
  TokenizerOptions tokenizer;
};

/// --data, --pairs, --text, --count, --skip-bad and the tokenizer's flags.
void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& options);

/// Pairs as tokens, of one tokenizer for both sides.
struct PairCorpus {
  std::string about;  ///< lines on what it is and what was left out
  std::string id;     ///< tells it from others
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::unique_ptr<models::PairSource> pairs;
};

/// Pairs for a model of that context; `begins_with`: as make_tokenizer has it. Prints which lines of
/// a file were skipped.
PairCorpus make_pair_corpus(const PairCorpusOptions& options, const std::string& begins_with,
                            int64_t context, uint64_t seed);

}  // namespace gradus
