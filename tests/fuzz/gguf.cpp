// Fuzzes GGUF files: the format, the configurations and the tokenizers in it.

#include "gradus/models/folder/gguf/gguf.h"

#include "gradus/core/files/checksum.h"
#include "gradus/models/models.h"
#include "tests/fuzz/fuzz.h"

namespace gguf_fuzz {

using namespace gradus;
using namespace gradus::models;

namespace {

std::string written(const GPTConfig& config, const Tokenizer* tokenizer, GgufType type) {
  return fuzz::saved(
      [&](const std::string& path) { save_gguf(path, GPT(config), tokenizer, type); });
}

std::vector<std::string> seeds() {
  const CharTokenizer chars("a\n", {"[UNK]"});
  const GPTConfig gpt2{.vocab = 3,
                       .context = 2,
                       .layers = 1,
                       .heads = 1,
                       .dim = 2,
                       .bias = true,
                       .activation = Activation::gelu_tanh};
  GPTConfig llama{.vocab = 3,
                  .context = 2,
                  .layers = 1,
                  .heads = 2,
                  .dim = 4,
                  .tie = false,
                  .activation = Activation::silu,
                  .gated = true,
                  .hidden = 32,
                  .kv_heads = 1,
                  .positions = Positions::rotary,
                  .norm = nn::NormKind::rms};
  std::vector<std::string> all{written(gpt2, nullptr, GgufType::f32),
                               written(gpt2, &chars, GgufType::f16)};
  llama.rotary.factor = 2;
  all.push_back(written(llama, &chars, GgufType::q8_0));
  llama.rotary.factor = 1, llama.qk_norm = true;
  all.push_back(written(llama, &chars, GgufType::bf16));
  const auto pairs = BPETokenizer::train("the the", {.vocab_size = 258, .special = {"<|end|>"}});
  llama.vocab = 259;
  all.push_back(written(llama, &pairs, GgufType::q8_0));
  const auto pieces =
      load_tokenizer(fuzz::write(fuzz::characters_tokenizer(fuzz::llama2_spaces()), "tokenizer"));
  llama.vocab = pieces->vocab_size();
  all.push_back(written(llama, pieces.get(), GgufType::q8_0));
  return all;
}

/// The file with its checksum corrected; unchanged if it has none.
std::string repaired(std::string bytes) {
  const std::string key = "gradus.checksum";
  const size_t at = bytes.find(key), digits = at + key.size() + 12;
  if (at == std::string::npos || digits + 16 > bytes.size()) return bytes;
  bytes.replace(digits, 16, std::string(16, '0'));
  gradus::internal::Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  return bytes.replace(digits, 16, checksum.digits());
}

/// Checks that what was read can be written and read again.
void run(const std::string& bytes) {
  fuzz::past_checksum(bytes, repaired, [](const std::string& file) {
    const GgufModel read = load_gguf(fuzz::write(file));
    const std::string path = fuzz::path_of("again");
    save_gguf(path, read.model, read.tokenizer.get(), GgufType::f32, &read.text);
    const GgufModel again = load_gguf(path);
    fuzz::expect(again.text.chat_template == read.text.chat_template, "another chat template");
    fuzz::expect(again.model.config.vocab == read.model.config.vocab, "another vocabulary");
  });
}

const fuzz::Register target{{"gguf", seeds, run, 2000}};

}  // namespace

}  // namespace gguf_fuzz
