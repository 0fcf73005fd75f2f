// Fuzzes the text that tokenizers are trained on and encode.

#include "gradus/models/data/text/token_file.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace encode_fuzz {

using namespace gradus;
using namespace gradus::models;

namespace {

std::vector<std::string> seeds() {
  return {"it's the they've then, 12 the\n",
          " \xc3\xa9t\xc3\xa9 \xe2\x82\xac  \xf0\x9d\x84\x9e a\xcc\x81",
          "\t\r\n \xc2\xa0 \xe3\x80\x80x", "\xd0\x96\xd0\xb6 \xd9\xa1\xd9\xa2 (a.b) \"c\" d-e"};
}

bool same_file(const Tokenizer& tokenizer, const std::string& bytes,
               const std::vector<int64_t>& ids, int64_t piece) {
  const std::string path = fuzz::path_of("tokens");
  TokenFile::write(path, fuzz::write(bytes), tokenizer, {.piece = piece});
  const TokenFile file(path);
  file.verify();
  std::vector<int64_t> read(static_cast<size_t>(file.size()));
  file.read(0, file.size(), read.data());
  return read == ids;
}

/// Checks that decoding restores the text, and that pieces of it give the same tokens.
void use(const Tokenizer& tokenizer, const std::string& bytes, bool exact) {
  const std::vector<int64_t> ids = tokenizer.encode(bytes);
  const std::string back = tokenizer.decode(ids);
  fuzz::expect(!exact || back == bytes, "decode(encode(x)) is not x");
  fuzz::expect(exact || tokenizer.encode(back) == ids, "encode(decode(ids)) is not ids");
  for (const int64_t piece : {1, 7})
    fuzz::expect(same_file(tokenizer, bytes, ids, piece), "pieces have other tokens");
}

void run(const std::string& bytes) {
  static const BPETokenizer trained = BPETokenizer::train(
      "the the they then it's it's 12 12 \n\n\n\n \xc3\xa9t\xc3\xa9 \xc3\xa9", {.vocab_size = 270});
  use(trained, bytes, true);
  use(BPETokenizer::train(bytes, {.vocab_size = 300}), bytes, true);
  use(CharTokenizer(bytes), bytes, true);
  WordTokenizer(bytes, {.max_words = 3, .lower_case = true}).encode(bytes);
  static const WordPieceTokenizer cut(
      {"[UNK]", "the", "##y", "t", "##t", "e", "1", "##2", "\xe3\x80\x80"});
  const WordTokenizer words(bytes);
  for (const Tokenizer* tokenizer :
       {static_cast<const Tokenizer*>(&cut), static_cast<const Tokenizer*>(&words)}) {
    const std::vector<int64_t> ids = tokenizer->encode(bytes);
    tokenizer->decode(ids);
    for (const int64_t piece : {1, 7})
      fuzz::expect(same_file(*tokenizer, bytes, ids, piece), "pieces have other tokens");
  }
}

const fuzz::Register target{{"encode", seeds, run, 2000}};

}  // namespace

}  // namespace encode_fuzz
