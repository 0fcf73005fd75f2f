#include "examples/support/tokenizers.h"

#include <cstdio>
#include <utility>

#include "examples/support/text.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

namespace gradus {

void add_tokenizer_flags(Flags& flags, TokenizerOptions& o) {
  flags.add("--tokenizer", o.name, "NAME",
            "unit of a token: char, word or bpe (byte pairs); or a folder whose tokenizer is used");
  flags.add("--vocab", o.vocab, 1, 1e9, "maximum number of words (word) or of tokens (bpe)");
}

std::string TokenizerOptions::folder(const std::string& begins_with) const {
  if (!begins_with.empty()) return begins_with;
  if (name == "char" || name == "word" || name == "bpe") return "";
  std::error_code error;
  core::check(std::filesystem::exists(name, error),
              "--tokenizer: expected char, word, bpe or a folder with a tokenizer, got ",
              shown(name));
  return name;
}

std::unique_ptr<models::Tokenizer> make_tokenizer(const TokenizerOptions& o,
                                                  const std::string& begins_with,
                                                  const std::string& text,
                                                  const std::vector<std::string>& special) {
  if (const std::string folder = o.folder(begins_with); !folder.empty())
    return models::load_tokenizer(folder);
  if (o.name == "char") return std::make_unique<models::CharTokenizer>(text, special);
  if (o.name == "word")
    return std::make_unique<models::WordTokenizer>(
        text, models::WordTokenizerOptions{.max_words = o.vocab, .special = special});
  return std::make_unique<models::BPETokenizer>(
      models::BPETokenizer::train(text, {.vocab_size = o.vocab, .special = special}));
}

std::unique_ptr<models::Tokenizer> load_tokenizer_for(const std::string& folder, int64_t vocab) {
  auto tokenizer = models::load_tokenizer(folder);
  // A model of characters or words has exactly its tokenizer's vocabulary; those of other models
  // are often rounded up.
  const bool may_be_fewer = dynamic_cast<models::BPETokenizer*>(tokenizer.get()) ||
                            dynamic_cast<models::HuggingFaceBPE*>(tokenizer.get()) ||
                            dynamic_cast<models::WordPieceTokenizer*>(tokenizer.get());
  const int64_t tokens = tokenizer->vocab_size();
  core::check(tokens == vocab || (may_be_fewer && tokens < vocab), folder, ": the model has ",
              vocab, " tokens, the tokenizer ", tokens);
  return tokenizer;
}

std::vector<std::string> token_texts(const models::Tokenizer& tokenizer,
                                     const std::vector<int64_t>& ids) {
  std::vector<std::string> texts;
  for (const int64_t id : ids) texts.push_back(tokenizer.decode({id}));
  return texts;
}

std::string TokenText::add(int64_t id) {
  constexpr size_t most = 512;
  if (ids_.size() == most) {
    ids_.erase(ids_.begin(), ids_.end() - most / 2);
    length_ = tokenizer_.decode(ids_).size();
  }
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_);
  const size_t before = std::exchange(length_, text.size());
  return text.substr(before);
}

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace gradus
