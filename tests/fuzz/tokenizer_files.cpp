// Fuzzes tokenizer.json of every type, ours and Hugging Face's, GPT-2's vocab.json and merges.txt,
// and BERT's vocab.txt.

#include <cstdio>

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace tokenizer_files_fuzz {

using namespace gradus;
using namespace gradus::models;

namespace {

const std::string text = "the the they then, \xc3\xa9t\xc3\xa9 12 the\n";

template <class T>
std::string saved(const T& tokenizer) {
  return fuzz::saved([&](const std::string& path) { tokenizer.save(path); });
}

const std::vector<std::string> pieces{"[UNK]", "the", "##y", "t", "\xc3\xa9", "##t", "1", "##2"};

// Hugging Face tokenizers of the supported kinds. BPE needs a token for each byte.
std::string their_wordpiece() {
  return R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true}],"normalizer":{"type":)"
         R"("BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,)"
         R"("lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":)"
         R"("WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
         R"("max_input_chars_per_word":100,"vocab":{"[UNK]":0,"the":1,"##y":2}}})";
}
std::string their_bpe() {
  BPETokenizer::train(" ", {.vocab_size = 256})
      .save_gpt2(fuzz::path_of("vocab"), fuzz::path_of("merges"));
  std::string vocab = read_file(fuzz::path_of("vocab"));
  vocab.resize(vocab.rfind('}'));
  return R"({"added_tokens":[{"id":257,"content":"<end>"}],"normalizer":null,"pre_tokenizer":)"
         R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"model":{"type":"BPE",)"
         R"("merges":["t h"],"vocab":)" +
         vocab + R"(,"th":256}}})";
}

std::string their_mistral() {
  return fuzz::characters_tokenizer(
      "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
      "\"\xe2\x96\x81\",\"prepend_scheme\":\"first\",\"split\":false},");
}

std::vector<std::string> seeds() {
  return {their_wordpiece(),
          their_bpe(),
          fuzz::characters_tokenizer(fuzz::llama2_spaces()),
          their_mistral(),
          saved(WordPieceTokenizer(pieces)),
          saved(CharTokenizer(text, {"[PAD]", "[UNK]"})),
          saved(CharTokenizer("ab")),
          saved(WordTokenizer(text)),
          saved(WordTokenizer(text, {.lower_case = true, .special = {}})),
          saved(BPETokenizer::train(text, {.vocab_size = 265, .special = {"<|endoftext|>"}}))};
}

/// Encodes and decodes with a loaded tokenizer, and checks that saving keeps it the same.
void use(const Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) ids.push_back(id);
  const std::string all = tokenizer.decode(ids);
  const auto again =
      load_tokenizer((tokenizer.save(fuzz::path_of("again")), fuzz::path_of("again")));
  fuzz::expect(again->decode(ids) == all && again->special_tokens() == tokenizer.special_tokens(),
               "saved and loaded, another tokenizer");
  for (const int64_t id : tokenizer.encode(tokenizer.has_special("[UNK]") ? text : ""))
    fuzz::expect(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
}

void run(const std::string& bytes) { use(*load_tokenizer(fuzz::write(bytes))); }

const BPETokenizer& gpt2() {
  static const BPETokenizer tokenizer =
      BPETokenizer::train(text, {.vocab_size = 265, .special = {"<|endoftext|>"}});
  return tokenizer;
}

std::vector<std::string> gpt2_seeds() {
  gpt2().save_gpt2(fuzz::path_of("vocab"), fuzz::path_of("merges"));
  return {fuzz::join({read_file(fuzz::path_of("merges")), read_file(fuzz::path_of("vocab"))}),
          // Merges without a vocabulary are used with the one saved above.
          read_file(fuzz::path_of("merges"))};
}

void run_gpt2(const std::string& bytes) {
  const auto parts = fuzz::split(bytes, 2);
  if (parts[1].empty())
    gpt2().save_gpt2(fuzz::path_of("vocab"), fuzz::path_of("merges"));
  else
    fuzz::write(parts[1], "vocab");
  use(BPETokenizer::load_gpt2(fuzz::path_of("vocab"), fuzz::write(parts[0], "merges")));
}

// Seeds: vocab.txt and tokenizer_config.json.
std::vector<std::string> bert_seeds() {
  WordPieceTokenizer(pieces).save_vocab(fuzz::path_of("vocab.txt"));
  return {fuzz::join(
      {read_file(fuzz::path_of("vocab.txt")),
       R"({"do_lower_case":true,"strip_accents":null,"tokenize_chinese_chars":false})"})};
}

void run_bert(const std::string& bytes) {
  const auto parts = fuzz::split(bytes, 2);
  fuzz::write(parts[0], "vocab.txt");
  fuzz::remove("tokenizer_config.json");
  if (!parts[1].empty()) fuzz::write(parts[1], "tokenizer_config.json");
  use(*load_tokenizer(fuzz::path_of("")));
}

const fuzz::Register words{{"vocab_txt", bert_seeds, run_bert, 600}};
const fuzz::Register files{{"tokenizer", seeds, run, 600}};
const fuzz::Register pair{{"gpt2", gpt2_seeds, run_gpt2, 600}};

}  // namespace
}  // namespace tokenizer_files_fuzz

std::string fuzz::characters_tokenizer(const std::string& before) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char entry[24];
    std::snprintf(entry, sizeof entry, R"("<0x%02X>":%d,)", static_cast<unsigned>(byte), byte);
    vocab += entry;
  }
  return R"({"added_tokens":[{"id":260,"content":"<s>","special":true}],)" + before +
         R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
         R"({"Sequence":{"id":"A"}}]},"decoder":{"type":"Sequence","decoders":[{"type":"Replace",)"
         "\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},"
         R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,)"
         R"("stop":0}]},"model":{"type":"BPE","byte_fallback":true,"merges":["t h"],"vocab":{)" +
         vocab + "\"\xe2\x96\x81\":256,\"t\":257,\"h\":258,\"th\":259}}}";
}
std::string fuzz::llama2_spaces() {
  return R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":")"
         "\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
         "\"\xe2\x96\x81\"}]},\"pre_tokenizer\":null,";
}
