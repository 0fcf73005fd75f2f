// GGUF files. Those in tests/golden/gguf were written by tests/golden/scripts/make_gguf_golden.py.

#include "gradus/models/folder/gguf/gguf.h"

#include <bit>
#include <catch2/catch.hpp>
#include <fstream>

#include "gradus/core/kernels/products/float16.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/folder/gguf/gguf_file.h"
#include "gradus/models/folder/model_folder.h"
#include "tests/golden/golden.h"
#include "tests/models/folder/hugging_face_folders.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"

using Catch::Matchers::Contains;

namespace gradus::testing::gguf_test {
namespace {

using namespace models;

std::string golden_path(const std::string& name) {
  return source_path("tests/golden/gguf/" + name + ".gguf");
}

NamedTensors expected_tensors(const std::string& name) {
  return golden::File("gguf/expected").with_prefix(name + ".", float32);
}

/// Requires that the model has exactly these tensors.
void require_tensors(const GPT& model, const NamedTensors& expected) {
  const NamedTensors got = model.state_dict();
  CHECK(got.size() == expected.size());
  for (const auto& [name, tensor] : got) {
    CAPTURE(name);
    const auto found = std::find_if(expected.begin(), expected.end(),
                                    [&name = name](const auto& one) { return one.first == name; });
    REQUIRE(found != expected.end());
    CHECK(golden::same(tensor, found->second));
  }
}

Tensor logits(const GPT& model) {
  const NoGrad no_grad;
  const EvalMode eval;
  return model(tensor({{1, 0, 2, 1}}, int64));
}

GPTConfig gpt2_config() {
  return {.vocab = 3, .context = 4, .layers = 2, .heads = 2, .dim = 32, .bias = true};
}

GPTConfig llama_config() {
  return {.vocab = 3,
          .context = 8,
          .layers = 2,
          .heads = 2,
          .dim = 32,
          .activation = Activation::silu,
          .gated = true,
          .hidden = 64,
          .positions = Positions::rotary,
          .norm = nn::NormKind::rms};
}

std::string refused_config(const GPTConfig& config) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const std::string message = error_of([&] { save_gguf(path, GPT(config)); });
  CHECK(std::filesystem::exists(path) == (message == ""));
  return message;
}

/// The message that load_gguf throws for the golden file `name` with `from`, of the same length,
/// replaced by `to`.
std::string refused_file(const std::string& name, const std::string& from, const std::string& to) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  std::string bytes = read_file(golden_path(name));
  const size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());
  write_file_atomically(path, bytes.replace(at, from.size(), to));
  const std::string message = error_of([&] { load_gguf(path); });
  CHECK_THAT(message, Contains(path));
  return message;
}

std::string u32(uint32_t x) {
  const auto bytes = std::bit_cast<std::array<char, 4>>(x);
  return {bytes.begin(), bytes.end()};
}
std::string text(const std::string& content) {
  return u32(static_cast<uint32_t>(content.size())) + u32(0) + content;
}

}  // namespace

TEST_CASE("a Llama's GGUF file of another program is read", "[gguf]") {
  const GgufModel read = load_gguf(golden_path("llama"));
  require_tensors(read.model, expected_tensors("llama"));
  const GPTConfig& c = read.model.config;
  CHECK(c.vocab == 6);
  CHECK(c.context == 24);
  CHECK(c.heads == 4);
  CHECK(c.kv_heads == 2);
  CHECK(c.norm_eps == 1e-3);
  CHECK(c.rotary == nn::RotaryOptions{.theta = 1e6, .factor = 8});
  CHECK(c.tie);
  CHECK((c.bias && c.qkv_bias && c.gated));
  REQUIRE(dynamic_cast<const CharTokenizer*>(read.tokenizer.get()));
  CHECK(read.tokenizer->encode("\n \\a\xc3\xa9?") == std::vector<int64_t>{1, 2, 3, 4, 5, 0});
}

TEST_CASE("a GPT-2's GGUF file of another program is read", "[gguf]") {
  const GgufModel read = load_gguf(golden_path("gpt2"));
  require_tensors(read.model, expected_tensors("gpt2"));
  CHECK(read.model.config.activation == Activation::gelu_tanh);
  CHECK(read.model.config.norm_eps == 1e-5);
  CHECK(read.model.config.vocab == 261);
  REQUIRE(dynamic_cast<const BPETokenizer*>(read.tokenizer.get()));
  CHECK(read.tokenizer->vocab_size() == 260);  // without the unused one
  CHECK(read.tokenizer->encode("he the\xff") == std::vector<int64_t>{257, 258, 255});
  CHECK(read.tokenizer->special("<|endoftext|>") == 259);
}

TEST_CASE("a Qwen 3's GGUF file of another program is read", "[gguf]") {
  const GgufModel read = load_gguf(golden_path("qwen3"));
  require_tensors(read.model, expected_tensors("qwen3"));
  CHECK_FALSE(read.model.config.tie);
  CHECK(read.model.config.qk_norm);
  // The words of Llama 3, of which a whole one is a token although no merges make it.
  CHECK(read.tokenizer->encode("hello hehello") ==
        std::vector<int64_t>{258, 32, 256, 256, 108, 108, 111});
  CHECK(read.tokenizer->begin_ids() == std::vector<int64_t>{259});
}

TEST_CASE("float16 is rounded as NumPy rounds it", "[gguf]") {
  const golden::File file("gguf/expected");
  const Tensor x = file.get("float16.x", float32), rounded = file.get("float16.rounded", float32);
  int different = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float got = kernel::float_from_float16(kernel::float16_from(x.data<float>()[i]));
    different += std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(rounded.data<float>()[i]);
  }
  CHECK(different == 0);
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    if ((bits & 0x7c00u) != 0x7c00u)
      different +=
          kernel::float16_from(kernel::float_from_float16(static_cast<uint16_t>(bits))) != bits;
  CHECK(different == 0);
  CHECK(kernel::float16_from(65520) == 0x7c00);
  CHECK(kernel::float16_from(-INFINITY) == 0xfc00);
  CHECK((kernel::float16_from(NAN) & 0x7fffu) == 0x7e00);
}

TEST_CASE("metadata of every kind survive GGUF", "[gguf]") {
  const TemporaryFolder folder;
  models::internal::GgufFile file;
  file.metadata = {{"a", {true, false, true}},
                   {"b", {-1, 2}},
                   {"c", {0.5, 1.5}},
                   {"d", {"x", "y"}},
                   {"e", false},
                   {"f", 3},
                   {"g", 0.25},
                   {"h", "\u00e9"},
                   {"i", nlohmann::json::array()}};
  models::internal::write_gguf(folder / "file", file, GgufType::f32,
                               [](const std::string&) { return false; });
  const auto read = models::internal::read_gguf(folder / "file").metadata;
  for (const auto& [key, value] : file.metadata.items()) CHECK(read.at(key) == value);
}

TEST_CASE("a GPT written as GGUF and read again computes the same", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const CharTokenizer chars("a\n\\");
  GPTConfig c = GENERATE(gpt2_config(), llama_config());
  const bool is_llama = c.gated;
  const int variant = GENERATE(0, 1, 2, 3);
  if (variant == 1) c.tie = false, c.kv_heads = 1, c.dropout = 0.25;
  if (variant == 2) c.bias = false, c.activation = is_llama ? c.activation : Activation::gelu_tanh;
  if (variant == 3 && is_llama) c.qk_norm = true, c.head_dim = 8, c.rotary.theta = 500;
  if (variant == 1 && is_llama)
    c.rotary = {.factor = 3, .low_turns = 2, .high_turns = 5, .trained_context = 100};
  if (variant == 2 && is_llama) c.bias = c.qkv_bias = true;
  CAPTURE(variant, is_llama);
  manual_seed(3);
  const GPT model(c);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : model.state_dict())
    tensor.copy_(nn::init::normal(tensor.shape(), 0.1, 0.3));
  save_gguf(path, model, &chars);
  const GgufModel read = load_gguf(path);
  CHECK(golden::same(logits(read.model), logits(model)));
  CHECK(read.tokenizer->to_json() == chars.to_json());
  GPTConfig now = read.model.config;
  CHECK(now.activation == c.activation);
  CHECK(now.dropout == c.dropout);
  CHECK(now.rotary == c.rotary);
  CHECK(now.hidden > 0);
  CHECK(now.kv_heads == c.kv_heads);
  CHECK(now.head_dim == c.head_dim);

  // Smaller types: the largest difference is what each type's rounding explains.
  for (const auto& [type, most] :
       {std::pair{GgufType::f16, 2e-3}, {GgufType::bf16, 2e-2}, {GgufType::q8_0, 2e-2}}) {
    const auto before = std::filesystem::file_size(path);
    const std::string small = folder / "small.gguf";
    save_gguf(small, model, nullptr, type);
    const GgufModel rounded = load_gguf(small);
    CHECK_FALSE(rounded.tokenizer);
    CHECK(std::filesystem::file_size(small) < before);
    const double difference = golden::difference(logits(rounded.model), logits(model));
    CHECK(difference < most);
    CHECK(difference > most / 100);
    save_gguf(folder / "again.gguf", rounded.model, nullptr, type);
    CHECK(golden::same(logits(load_gguf(folder / "again.gguf").model), logits(rounded.model)));
  }
}

TEST_CASE("GGUF: weights too large for the file's type are refused", "[gguf]") {
  const TemporaryFolder folder;
  const models::GPT model({.vocab = 5, .context = 4, .layers = 1, .heads = 1, .dim = 32});
  const std::string path = folder / "m.gguf";
  for (const auto& [type, weight, most] : {std::tuple{GgufType::f16, 7e4, "float16, 65504"},
                                           {GgufType::bf16, 3.4e38, "bfloat16, 3.39e38"}}) {
    const NoGrad no_grad;
    model.wte.weight.fill_(weight);
    CHECK_THROWS_WITH(save_gguf(path, model, nullptr, type), Contains(most));
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("folders of Llama's family compute PyTorch's logits from GGUF files too", "[gguf]") {
  const std::string name = GENERATE("llama3", "qwen2", "qwen3", "smollm2", "gpt2");
  CAPTURE(name);
  const TemporaryFolder folder;
  const auto model = load_model<GPT>(all_folders + name);
  if (model.config.window > 0) return;
  save_gguf(folder / "x.gguf", model);
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected(name);
  const Tensor got = load_gguf(folder / "x.gguf").model(file.get("ids"));
  CHECK(difference(got, file.get("logits", float32)) < 1e-5);
}

TEST_CASE("tokenizers of byte pairs survive GGUF, vocabularies may be larger", "[gguf]") {
  const TemporaryFolder folder;
  const std::string corpus = "the cat. the hat's 12\n\xc3\xa9\xe2\x82\xac";
  const bool has_special = GENERATE(false, true);
  const auto tokenizer = BPETokenizer::train(
      corpus, {.vocab_size = 262,
               .special = has_special ? std::vector<std::string>{"<|endoftext|>"}
                                      : std::vector<std::string>{}});
  GPTConfig c = gpt2_config();
  c.vocab = 264;
  save_gguf(folder / "x.gguf", GPT(c), &tokenizer);
  const GgufModel read = load_gguf(folder / "x.gguf");
  CHECK(read.tokenizer->to_json() == tokenizer.to_json());
  CHECK(read.model.config.vocab == 264);
  // llama.cpp would take another token for the end.
  const std::string bytes = read_file(folder / "x.gguf"), key = "tokenizer.ggml.eos_token_id";
  const int64_t end = has_special ? 0 : tokenizer.encode("\xff")[0];
  CHECK(bytes.substr(bytes.find(key) + key.size(), 8) == u32(4) + u32(static_cast<uint32_t>(end)));
}

TEST_CASE("tokenizers of Llama's family survive GGUF", "[gguf]") {
  const std::string name = GENERATE("llama3", "qwen2", "smollm2");
  const bool as_pairs = GENERATE(false, true);  // merges as ["a", "b"], as newer files have them
  CAPTURE(name, as_pairs);
  const TemporaryFolder folder;
  const Copy copy(name);
  json file = json_in(copy / "tokenizer.json");
  for (json& merge : file["model"]["merges"]) {
    const std::string both = merge;
    const size_t space = both.find(' ');
    if (as_pairs) merge = json::array({both.substr(0, space), both.substr(space + 1)});
  }
  write_file_atomically(copy / "tokenizer.json", file.dump());
  const auto tokenizer = load_tokenizer(copy.dir);
  GPTConfig c = llama_config();
  c.vocab = tokenizer->vocab_size();
  save_gguf(folder / "x.gguf", GPT(c), tokenizer.get());
  const auto read = load_gguf(folder / "x.gguf").tokenizer;
  CHECK(read->begin_ids() == tokenizer->begin_ids());
  for (const std::string one :
       {"it's 1234 e\xcc\x81\n\n  x", "Hello  world!\t", "\xff", "a<think>b"})
    CHECK(read->encode(one) == tokenizer->encode(one));
}

/// All pairs of tokens that make a token, in the order of ids, as SentencePiece merges them.
json all_merges(const json& vocab) {
  std::map<int64_t, std::string> tokens;
  for (const auto& [token, id] : vocab.items())
    if (token.size() == 1 || token[0] != '<') tokens[id] = token;
  json merges = json::array();
  for (const auto& [id, token] : tokens)
    for (size_t at = 1; at < token.size(); ++at)
      if (vocab.contains(token.substr(0, at)) && vocab.contains(token.substr(at)))
        merges.push_back({token.substr(0, at), token.substr(at)});
  return merges;
}

TEST_CASE("SentencePiece's tokenizers survive GGUF if llama.cpp merges as they do", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf", file_path = folder / "tokenizer.json";
  json file = json_in(all_folders + "llama2/tokenizer.json");
  const auto save = [&] {
    write_file_atomically(file_path, file.dump());
    auto tokenizer = load_tokenizer(file_path);
    GPTConfig c = llama_config();
    c.vocab = tokenizer->vocab_size() + 2;
    save_gguf(path, GPT(c), tokenizer.get());
    return tokenizer;
  };
  CHECK_THAT(error_of(save), Contains("save_gguf: llama.cpp would merge \""));
  file["model"]["merges"] = all_merges(file["model"]["vocab"]);
  const bool has_prefix = GENERATE(false, true);
  if (!has_prefix) {
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = json_in(all_folders + "mistral/tokenizer.json")["pre_tokenizer"];
    CHECK_THAT(error_of(save), Contains("puts a space before some texts only"));
    file["pre_tokenizer"]["prepend_scheme"] = "never";
    file["post_processor"] = nullptr;
    file["decoder"]["decoders"].erase(3);  // strips the space before a text
  }
  // llama.cpp would give merges of one token the same rank.
  json& merges = file["model"]["merges"];
  const json in_order = merges;
  size_t shared = 1;
  const auto made = [&](size_t i) { return std::string(merges[i][0]) + std::string(merges[i][1]); };
  while (made(shared) != made(shared - 1)) ++shared;
  std::swap(merges[shared], merges[merges.size() - 1]);
  CHECK_THAT(error_of(save), Contains("save_gguf: merges that make") && Contains("lie apart"));
  merges = in_order;
  const auto tokenizer = save();
  const GgufModel model = load_gguf(path);
  const Tokenizer& read = *model.tokenizer;
  CHECK(read.vocab_size() == tokenizer->vocab_size());
  CHECK(read.begin_ids() == std::vector<int64_t>(has_prefix ? 1 : 0, 1));
  CHECK(read.special_tokens() == tokenizer->special_tokens());
  for (const json& one : json_in(all_folders + "tokenizers.json")) {
    const auto ids = tokenizer->encode_with_special(one["text"]);
    CHECK(read.encode_with_special(one["text"]) == ids);
    CHECK(read.decode(ids) == tokenizer->decode(ids));
  }
}

TEST_CASE("what llama.cpp does not compute is refused by name", "[gguf]") {
  const auto with = [](GPTConfig c, const std::function<void(GPTConfig&)>& change) {
    change(c);
    return refused_config(c);
  };
  const GPTConfig gpt2 = gpt2_config(), llama = llama_config();
  CHECK(with(gpt2, [](auto& c) { c.norm = nn::NormKind::rms; }) ==
        "save_gguf: llama.cpp's gpt2 has norm layer, this model has rms");
  CHECK(with(gpt2, [](auto& c) { c.positions = Positions::sinusoidal; }) ==
        "save_gguf: llama.cpp's gpt2 has positions learned, this model has sinusoidal");
  CHECK(with(gpt2, [](auto& c) { c.qk_norm = true; }) ==
        "save_gguf: llama.cpp's gpt2 has qk_norm false, this model has true");
  CHECK(with(gpt2, [](auto& c) { c.activation = Activation::relu; }) ==
        "save_gguf: llama.cpp's gpt2 has activation gelu_tanh, this model has relu");
  CHECK(with(gpt2, [](auto& c) { c.gated = true; }) ==
        "save_gguf: llama.cpp's gpt2 has gated false, this model has true");
  CHECK(with(gpt2, [](auto& c) { c.head_dim = 4; }) ==
        "save_gguf: llama.cpp's gpt2 has head_dim 0, this model has 4");
  CHECK(with(llama, [](auto& c) { c.norm = nn::NormKind::layer; }) ==
        "save_gguf: llama.cpp's llama has norm rms, this model has layer");
  CHECK(with(llama, [](auto& c) { c.window = 7; }) ==
        "save_gguf: llama.cpp's llama has window 0, this model has 7");
  CHECK(with(llama, [](auto& c) { c.window = 8; }) == "");
  CHECK(with(llama, [](auto& c) { c.gated = false; }) ==
        "save_gguf: llama.cpp's llama has gated true, this model has false");
  CHECK(with(llama, [](auto& c) { c.activation = Activation::gelu; }) ==
        "save_gguf: llama.cpp's llama has activation silu, this model has gelu");
  CHECK(with(llama, [](auto& c) { c.bigram = true; }) ==
        "save_gguf: llama.cpp's llama has bigram false, this model has true");
  CHECK(with(llama, [](auto& c) { c.token_shift = true; }) ==
        "save_gguf: llama.cpp's llama has token_shift false, this model has true");
  CHECK(with(llama, [](auto& c) { c.value_shortcut = true; }) ==
        "save_gguf: llama.cpp's llama has value_shortcut false, this model has true");
  CHECK(with(llama, [](auto& c) { c.embedding_shortcut = true; }) ==
        "save_gguf: llama.cpp's llama has embedding_shortcut false, this model has true");
  CHECK(with(llama, [](auto& c) { c.logit_cap = 15; }) ==
        "save_gguf: llama.cpp's llama has logit_cap 0.0, this model has 15.0");
  CHECK(with(llama, [](auto& c) { c.qk_norm = c.bias = true; }) ==
        "save_gguf: llama.cpp's qwen3 has bias false, this model has true");
  CHECK(with(llama, [](auto& c) { c.qk_norm = true, c.rotary.factor = 2; }) ==
        "save_gguf: llama.cpp's qwen3 has rotary_factor 1.0, this model has 2.0");
}

TEST_CASE("tokenizers and weights that GGUF lacks are refused, and no file is left", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const GPT model(gpt2_config());
  const WordTokenizer words("a b", {.max_words = 3});
  CHECK(error_of([&] { save_gguf(path, model, &words); }) ==
        "save_gguf: expected a tokenizer of characters or byte pairs, got word");
  const CharTokenizer four("abcd");
  CHECK(error_of([&] { save_gguf(path, model, &four); }) ==
        "save_gguf: the model has 3 tokens, the tokenizer 4");
  {
    const NoGrad no_grad;
    model.wte.weight.slice(0, 1, 2).fill_(1e5);
  }
  CHECK_THAT(error_of([&] { save_gguf(path, model, nullptr, GgufType::f16); }),
             Contains("tensor \"token_embd.weight\": f16: element 100000 is beyond"));
  {
    const NoGrad no_grad;
    model.wte.weight.slice(0, 1, 2).fill_(NAN);
  }
  CHECK_THAT(error_of([&] { save_gguf(path, model, nullptr, GgufType::q8_0); }),
             Contains("tensor \"token_embd.weight\": q8_0: element nan is not finite"));
  {
    const NoGrad no_grad;
    model.wte.weight.slice(0, 1, 2).fill_(-1e7);
  }
  CHECK_THAT(error_of([&] { save_gguf(path, model, nullptr, GgufType::q8_0); }),
             Contains("q8_0: element -1e+07 is beyond q8_0's largest value, 127 * 65504"));
  CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
}

TEST_CASE("foreign GGUF files are refused with the file and the entry", "[gguf]") {
  CHECK_THAT(refused_file("llama", u32(8) + text("llama"), u32(8) + text("mamba")),
             Contains("metadata \"general.architecture\": expected one of \"gpt2\", \"llama\""));
  CHECK_THAT(refused_file("llama", "llama.rope.dimension_count", "llama.attention.max_alibi_"),
             Contains("metadata \"llama.attention.max_alibi_\": gradus has no model with this"));
  CHECK_THAT(refused_file("llama", "llama.block_count", "llama.block_kount"),
             Contains("llama.block_count"));
  CHECK_THAT(refused_file("llama", "blk.0.ffn_gate.bias", "blk.0.ffn_gate.bits"),
             Contains("missing: blk.0.ffn_gate.bias; unexpected: blk.0.ffn_gate.bits"));
  CHECK_THAT(refused_file("llama", "attn_k.bias", "attn_q.bias"),
             Contains("two tensors are named \"blk.0.attn_q.bias\""));
  CHECK_THAT(refused_file("llama", text("rwkv"), text("bert")),
             Contains("metadata \"tokenizer.ggml.model\": expected \"gpt2\""));
  CHECK_THAT(refused_file("gpt2", text("gpt-2"), text("bloom")),
             Contains("tokenizer.ggml.pre: expected \"gpt-2\""));
  CHECK_THAT(refused_file("gpt2", "GGUF" + u32(2), "GGUF" + u32(1)),
             Contains("expected version 2 or 3"));
  CHECK_THAT(refused_file("gpt2", "GGUF", "GGML"), Contains("expected a GGUF file"));
  CHECK_THAT(refused_file("gpt2", "general.alignment" + u32(4) + u32(64),
                          "general.alignment" + u32(4) + u32(48)),
             Contains("metadata \"general.alignment\": expected a power of 2"));
  // The first dimension, 32, and the types of the matrix of tokens.
  const std::string shape = u32(2) + u32(32) + u32(0) + u32(6) + u32(0);
  CHECK_THAT(refused_file("llama", shape + u32(0), shape + u32(2)),
             Contains("tensor \"token_embd.weight\": expected the type f32, f16, bf16 or q8_0, got "
                      "GGML's type 2"));
  CHECK_THAT(refused_file("llama", shape, u32(2) + u32(32) + u32(0) + u32(6) + u32(1 << 30)),
             Contains("tensor \"token_embd.weight\": expected sizes of at least 1 whose product"));
  CHECK_THAT(refused_file("llama", shape, u32(2) + u32(32) + u32(0) + u32(6) + u32(1 << 10)),
             Contains("tensor \"token_embd.weight\": f32 (4398046511110, 32) takes"));
  CHECK_THAT(refused_file("llama", shape, u32(9) + u32(32) + u32(0) + u32(6) + u32(0)),
             Contains("tensor \"token_embd.weight\": expected 1 to 4 axes, got 9"));
}

TEST_CASE("damaged GGUF files are refused", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  GPTConfig c = llama_config();
  c.layers = 1, c.dim = 4, c.hidden = 4;
  const CharTokenizer chars("a\n\\");
  save_gguf(path, GPT(c), &chars);
  CHECK(count_taken(path, [&] { load_gguf(path); }) == 0);
}

TEST_CASE("is_gguf knows files by their first bytes", "[gguf]") {
  const TemporaryFolder folder;
  CHECK(is_gguf(golden_path("llama")));
  CHECK_FALSE(is_gguf(source_path("tests/golden/gguf")));
  CHECK_FALSE(is_gguf(folder / "none"));
  write_file_atomically(folder / "short", "GGU");
  CHECK_FALSE(is_gguf(folder / "short"));
}

}  // namespace gradus::testing::gguf_test
