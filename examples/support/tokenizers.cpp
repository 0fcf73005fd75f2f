#include "examples/support/tokenizers.h"

#include "gradus/models/data/bpe_tokenizer.h"
#include "gradus/models/data/char_tokenizer.h"
#include "gradus/models/data/word_tokenizer.h"
#include "gradus/models/model_folder.h"

namespace gradus {

void add_tokenizer_flags(Flags& flags, TokenizerOptions& o) {
  models::Fields fields;
  fields.add("tokenizer", o.kind, {"char", "word", "bpe"}, "what a token is");
  flags.add(fields);
  flags.add("--vocab", o.vocab, 1, 1e9, "most tokens of words or bpe (byte pairs)");
}

std::unique_ptr<models::Tokenizer> make_tokenizer(const TokenizerOptions& o,
                                                  const std::string& begins_with,
                                                  const std::string& text,
                                                  const std::vector<std::string>& special) {
  if (!begins_with.empty()) return models::load_tokenizer(models::tokenizer_path(begins_with));
  if (o.kind == TokenizerKind::characters)
    return std::make_unique<models::CharTokenizer>(text, special);
  if (o.kind == TokenizerKind::words)
    return std::make_unique<models::WordTokenizer>(
        text, models::WordTokenizerOptions{.max_words = o.vocab, .special = special});
  return std::make_unique<models::BPETokenizer>(
      models::BPETokenizer::train(text, {.vocab_size = o.vocab, .special = special}));
}

}  // namespace gradus
