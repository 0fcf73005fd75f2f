#include "examples/tasks/pair_corpus.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "examples/support/source_text.h"
#include "examples/support/text.h"
#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/denoising.h"
#include "gradus/models/data/text/pair_data.h"
#include "gradus/models/data/text/synthetic_pairs.h"

namespace gradus {

using models::DenoisingData, models::PairData, models::TextPair;

void add_pair_corpus_flags(Flags& flags, PairCorpusOptions& o) {
  flags.add("--data", o.data, {"dates", "reversal", "addition", "denoise"},
            "built-in task (denoise: from --text)");
  flags.add("--pairs", o.pairs, "FILE", "UTF-8 lines: source, tab, target", "those of --data");
  flags.add("--skip-bad", o.skip_bad, "skip and count malformed lines of --pairs");
  flags.add("--text", o.text, "FILE", "UTF-8 text for --data denoise", name_of_text(""));
  flags.added_later({"--text"});
  flags.add("--count", o.count, 10, 1e6, "number of pairs to generate");
  add_tokenizer_flags(flags, o.tokenizer);
}

void check_pair_corpus_flags(const Flags& flags, const PairCorpusOptions& o) {
  if (o.data == PairTask::denoise)
    return flags.refuse({"--pairs", "--skip-bad", "--count"}, " has no effect with --data denoise");
  flags.refuse({"--text"}, " has no effect without --data denoise");
  if (o.pairs.empty()) return flags.refuse({"--skip-bad"}, " has no effect without --pairs");
  flags.refuse({"--data", "--count"}, " has no effect with --pairs");
}

namespace {

/// The pairs and the text of both sides. For denoising there is only text.
struct PairText {
  std::vector<TextPair> pairs;
  std::string text;
};

std::vector<TextPair> make_or_read_pairs(const PairCorpusOptions& o, uint64_t seed) {
  if (o.pairs.empty()) {
    if (o.data == PairTask::dates) return models::date_pairs(o.count, seed);
    if (o.data == PairTask::reversal) return models::reversal_pairs(o.count, seed);
    return models::addition_pairs(o.count, seed);
  }
  const models::PairFile file = models::read_pairs(o.pairs, {.skip_bad = o.skip_bad});
  for (const auto& [reason, skipped] : file.skipped)
    std::printf("skipped in %s: %s, lines: %s, the first: %s\n", o.pairs.c_str(), reason.c_str(),
                with_commas(skipped.lines).c_str(), with_commas(skipped.first).c_str());
  return file.pairs;
}

PairText read_pair_text(const PairCorpusOptions& o, uint64_t seed) {
  if (o.data == PairTask::denoise) return {{}, read_text(o.text)};
  PairText read{make_or_read_pairs(o, seed), ""};
  for (const auto& [x, y] : read.pairs) read.text += x + '\n' + y + '\n';
  return read;
}

/// A line of two counts, or "" if both are 0.
std::string counted(const char* what, int64_t some, const std::string& of_what, int64_t more,
                    const std::string& of_what_more) {
  if (some + more == 0) return "";
  return std::string("       ") + what + with_commas(some) + of_what + ", " + with_commas(more) +
         of_what_more + '\n';
}

std::string lines_on(const PairData::Report& r, const PairCorpusOptions& o) {
  return "pairs  " + (o.pairs.empty() ? "generated" : o.pairs) + ": " + with_commas(r.train) +
         " train, " + with_commas(r.validation) + " with other sources validate\n" +
         counted("left out: ", r.too_long, " longer than --context", r.empty,
                 " without tokens on a side") +
         counted("unknown: ", r.unknown_sources,
                 " of " + with_commas(r.source_tokens) + " source tokens", r.unknown_targets,
                 " of " + with_commas(r.target_tokens) + " target tokens");
}

std::string lines_on(const DenoisingData::Report& r, const PairCorpusOptions& o) {
  return "text   " + name_of_text(o.text) + ": " + with_commas(r.train) + " lines train, " +
         with_commas(r.validation) + " other ones validate; " + with_commas(r.tokens) +
         " tokens, " + with_commas(r.unknown) + " of them unknown\n" +
         counted("left out: ", r.repeated, " that repeat another", r.too_short,
                 " of a single token");
}

}  // namespace

PairCorpus make_pair_corpus(const PairCorpusOptions& o, const std::string& begins_with,
                            int64_t context, uint64_t seed) {
  const bool denoise = o.data == PairTask::denoise;
  // The shortest target and its [START]: a sentinel, a removed token and the last sentinel.
  core::check(!denoise || context >= 4, "--context: expected at least 4 with --data denoise, got ",
              context);
  const PairText read = read_pair_text(o, seed);
  core::check(!read.text.empty(), o.pairs + o.text, ": expected a text, got none");
  const models::DenoisingOptions lines{.length = context, .seed = seed};
  std::vector<std::string> special{"[PAD]", "[UNK]", "[START]", "[END]"};
  if (denoise) special = DenoisingData::special_tokens(lines);
  PairCorpus corpus{"", fingerprint(read.text),
                    make_tokenizer(o.tokenizer, begins_with, read.text, special), nullptr};
  auto keep = [&](auto data) {
    corpus.about = lines_on(data->report(), o);
    corpus.pairs = std::move(data);
  };
  if (denoise)
    keep(std::make_unique<DenoisingData>(read.text, *corpus.tokenizer, lines));
  else
    keep(std::make_unique<PairData>(
        read.pairs, *corpus.tokenizer, *corpus.tokenizer,
        models::PairDataOptions{.max_source = context, .max_target = context - 1, .seed = seed}));
  core::check(corpus.pairs->num_pairs(models::Split::validation) > 0, o.pairs + o.text, ": one ",
              denoise ? "line" : "source", " only: none is left for validation");
  return corpus;
}

}  // namespace gradus
