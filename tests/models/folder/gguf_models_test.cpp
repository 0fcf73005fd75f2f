// What a GPT's GGUF file holds, and files whose metadata contradict their tensors.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/folder/gguf/gguf.h"
#include "gradus/models/folder/gguf/gguf_file.h"
#include "gradus/nn/finetune/lora.h"
#include "tests/models/folder/hugging_face_folders.h"

using Catch::Matchers::Contains;

namespace gradus::testing::gguf_models_test {
namespace {

using namespace models;
using models::internal::GgufFile;

GPTConfig gpt2_config() {
  return {.vocab = 3, .context = 4, .layers = 1, .heads = 2, .dim = 32, .bias = true};
}

GPTConfig llama_config() {
  return {.vocab = 3,
          .context = 8,
          .layers = 1,
          .heads = 2,
          .dim = 32,
          .activation = Activation::silu,
          .gated = true,
          .positions = Positions::rotary,
          .norm = nn::NormKind::rms};
}

/// The content of the file of a GPT.
GgufFile file_of(const GPT& model, GgufType type = GgufType::f32) {
  const TemporaryFolder folder;
  save_gguf(folder / "x.gguf", model, nullptr, type);
  return models::internal::read_gguf(folder / "x.gguf");
}

bool has(const GgufFile& file, const std::string& tensor) {
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [&](const auto& named) { return named.first == tensor; });
}

Tensor& find(GgufFile& file, const std::string& tensor) {
  return std::find_if(file.tensors.begin(), file.tensors.end(),
                      [&](const auto& named) { return named.first == tensor; })
      ->second;
}

/// The message of loading the golden file `name` with this change; "accepted" if there is none.
std::string changed(const std::string& name, const std::function<void(GgufFile&)>& change) {
  const TemporaryFolder folder;
  GgufFile file = models::internal::read_gguf(source_path("tests/golden/gguf/" + name + ".gguf"));
  file.metadata.erase("general.alignment");  // of the original file
  change(file);
  models::internal::write_gguf(folder / "x.gguf", file, GgufType::f32,
                               [](const std::string&) { return false; });
  try {
    load_gguf(folder / "x.gguf");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

/// The tensor's name in a file of Qwen 2, from its name in Hugging Face's folders.
std::string qwen2_name(std::string name) {
  for (const auto& [theirs, in_file] : {std::pair{"model.layers.", "blk."},
                                        {"model.embed_tokens", "token_embd"},
                                        {"model.norm", "output_norm"},
                                        {"input_layernorm", "attn_norm"},
                                        {"post_attention_layernorm", "ffn_norm"},
                                        {"mlp.gate_proj", "ffn_gate"},
                                        {"mlp.up_proj", "ffn_up"},
                                        {"mlp.down_proj", "ffn_down"},
                                        {"self_attn.q_proj", "attn_q"},
                                        {"self_attn.k_proj", "attn_k"},
                                        {"self_attn.v_proj", "attn_v"},
                                        {"self_attn.o_proj", "attn_output"}})
    if (const size_t at = name.find(theirs); at != std::string::npos)
      name.replace(at, std::string(theirs).size(), in_file);
  return name;
}

/// The golden folder qwen2 as a GGUF file: both formats keep a head's features in the same order.
GgufFile qwen2_file() {
  const auto c = nlohmann::ordered_json::parse(read_file(all_folders + "qwen2/config.json"));
  GgufFile file{{{"general.architecture", "qwen2"}, {"tokenizer.ggml.model", "no_vocab"}}, {}};
  for (const auto& [key, theirs] : {std::pair{"context_length", "max_position_embeddings"},
                                    {"embedding_length", "hidden_size"},
                                    {"block_count", "num_hidden_layers"},
                                    {"feed_forward_length", "intermediate_size"},
                                    {"attention.head_count", "num_attention_heads"},
                                    {"attention.head_count_kv", "num_key_value_heads"},
                                    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                    {"rope.freq_base", "rope_theta"}})
    file.metadata[std::string("qwen2.") + key] = c[theirs];
  for (const auto& [name, tensor] : Copy("qwen2").tensors())
    file.tensors.emplace_back(qwen2_name(name), tensor);
  return file;
}

GgufModel written_and_read(const GgufFile& file) {
  const TemporaryFolder folder;
  models::internal::write_gguf(folder / "x.gguf", file, GgufType::f32,
                               [](const std::string&) { return false; });
  return load_gguf(folder / "x.gguf");
}

}  // namespace

TEST_CASE("a GGUF file of Qwen 2 computes PyTorch's logits", "[gguf]") {
  const NoGrad no_grad;
  const EvalMode eval;
  GgufFile file = qwen2_file();
  const GPT model = written_and_read(file).model;
  CHECK(model.config.qkv_bias);
  CHECK_FALSE(model.config.bias);
  CHECK(model.config.tie);
  CHECK(difference(model(expected("qwen2").get("ids")), expected("qwen2").get("logits", float32)) <
        1e-4);
  file.tensors.emplace_back("blk.0.attn_output.bias", zeros({16}));
  CHECK_THROWS_WITH(written_and_read(file), Contains("llama.cpp's qwen2 has bias false"));
}

TEST_CASE("a GPT's GGUF file names sizes that follow from others", "[gguf]") {
  CHECK(file_of(GPT(gpt2_config())).metadata["gpt2.vocab_size"] == 3);
  GPTConfig c = llama_config();
  c.head_dim = 8;
  GgufFile llama = file_of(GPT(c));
  for (const auto& [key, value] : {std::pair{"vocab_size", 3},
                                   {"rope.dimension_count", 8},
                                   {"attention.key_length", 8},
                                   {"attention.value_length", 8},
                                   {"attention.head_count_kv", 2}}) {
    CAPTURE(key);
    CHECK(llama.metadata[std::string("llama.") + key] == value);
  }
}

TEST_CASE("GGUF: biases of queries, keys and values that llama.cpp lacks are refused", "[gguf]") {
  const auto refusal = [](const GPTConfig& c) { return error_of([&] { file_of(GPT(c)); }); };
  GPTConfig gpt2 = gpt2_config(), qwen3 = llama_config();
  gpt2.bias = false;
  gpt2.qkv_bias = qwen3.qkv_bias = qwen3.qk_norm = true;
  CHECK(refusal(gpt2) == "save_gguf: llama.cpp's gpt2 has qkv_bias false, this model has true");
  CHECK(refusal(qwen3) == "save_gguf: llama.cpp's qwen3 has qkv_bias false, this model has true");
}

TEST_CASE("a GPT's GGUF file names its type and keeps positions exact", "[gguf]") {
  manual_seed(2);
  const GPT model(gpt2_config());
  const std::vector<std::pair<GgufType, int>> types{
      {GgufType::f32, 0}, {GgufType::f16, 1}, {GgufType::bf16, 32}, {GgufType::q8_0, 7}};
  for (const auto& [type, number] : types) {
    CAPTURE(number);
    GgufFile file = file_of(model, type);
    CHECK(file.metadata["general.file_type"] == number);
    CHECK(file.metadata.contains("general.quantization_version") == (type == GgufType::q8_0));
    CHECK(golden::same(find(file, "position_embd.weight"), model.wpe->weight.detach()));
    CHECK(golden::same(find(file, "token_embd.weight"), model.wte.weight.detach()) ==
          (type == GgufType::f32));
  }
}

TEST_CASE("a GPT's GGUF file has frequency factors only where they are scaled", "[gguf]") {
  GPTConfig c = llama_config();
  CHECK_FALSE(has(file_of(GPT(c)), "rope_freqs.weight"));
  c.rotary.factor = 4;
  CHECK(has(file_of(GPT(c)), "rope_freqs.weight"));
}

TEST_CASE("a GPT's GGUF file has the default sizes of feed-forward layers", "[gguf]") {
  CHECK(file_of(GPT(gpt2_config())).metadata["gpt2.feed_forward_length"] == 128);
  GgufFile llama = file_of(GPT(llama_config()));
  CHECK(llama.metadata["llama.feed_forward_length"] == 88);  // 8/3 32, to a multiple of 8
  CHECK(find(llama, "blk.0.ffn_gate.weight").shape() == Shape{88, 32});
}

TEST_CASE("GGUF files larger than their tensors are refused before they are allocated", "[gguf]") {
  const auto with_context = [](int64_t tokens) {
    return changed("gpt2", [&](GgufFile& f) { f.metadata["gpt2.context_length"] = tokens; });
  };
  CHECK(with_context(24) == "accepted");
  CHECK_THAT(with_context(25),  // small enough to allocate
             Contains("position_embd.weight (expected float32 (25, 32), got float32 (24, 32))"));
  CHECK_THAT(with_context(10000), Contains("(10000, 32) exceeds the"));
}

TEST_CASE("GGUF files whose metadata contradict each other or the tensors are refused", "[gguf]") {
  const auto llama = [](const std::string& key, const nlohmann::json& value) {
    return changed("llama", [&](GgufFile& f) { f.metadata[key] = value; });
  };
  CHECK(llama("llama.rope.dimension_count", 8) == "accepted");
  CHECK_THAT(llama("llama.rope.dimension_count", 6),
             Contains("metadata \"llama.rope.dimension_count\": expected 8, got 6"));
  CHECK(llama("llama.vocab_size", 6) == "accepted");
  CHECK_THAT(llama("llama.vocab_size", 7),
             Contains("metadata \"llama.vocab_size\": expected 6, got 7"));
  CHECK_THAT(llama("llama.attention.value_length", 4), Contains("expected 8, got 4"));
  CHECK_THAT(llama("gradus.dropout", 1),
             Contains("metadata \"gradus.dropout\": expected a string, got 1"));
  CHECK_THAT(llama("gradus.dropout", "1"),
             Contains("metadata \"gradus.dropout\": expected a number from 0 to 0.999999"));
  CHECK_THAT(changed("gpt2", [](GgufFile& f) { f.tensors.erase(f.tensors.begin()); }),
             Contains("expected a matrix \"token_embd.weight\""));
  CHECK_THAT(changed("gpt2", [](GgufFile& f) { find(f, "token_embd.weight") = ones({32}); }),
             Contains("expected a matrix \"token_embd.weight\""));
}

TEST_CASE("GGUF: sizes that are NaN or infinite are refused, unknown entries that are not",
          "[gguf]") {
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    const auto with = [&](const std::string& key) {
      return changed("llama", [&](GgufFile& f) { f.metadata[key] = bad; });
    };
    // The second one has a default, which must not replace it.
    for (const std::string key : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"})
      CHECK_THAT(with(key), Contains("metadata: " + key + ": expected a number"));
    CHECK_THAT(with("llama.context_length"), Contains("expected a whole number"));
    CHECK_THAT(with("llama.vocab_size"), Contains("expected 6, got"));
    CHECK(with("general.quality") == "accepted");
  }
}

TEST_CASE("GGUF: a model with low-rank updates is refused until they are merged", "[gguf]") {
  const TemporaryFolder folder;
  GPT model(gpt2_config());
  nn::add_lora(model, {.rank = 2});
  CHECK_THROWS_WITH(save_gguf(folder / "x.gguf", model), Contains("call merge_lora first"));
  CHECK_FALSE(std::filesystem::exists(folder / "x.gguf"));
  nn::merge_lora(model);
  CHECK_NOTHROW(save_gguf(folder / "x.gguf", model));
}

TEST_CASE("GGUF: frequency factors may differ from Llama 3.1's by rounding only", "[gguf]") {
  const auto with_factors = [](const std::function<void(Tensor&)>& change) {
    return changed("llama", [&](GgufFile& f) {
      Tensor factors = find(f, "rope_freqs.weight").clone();
      change(factors);
      find(f, "rope_freqs.weight") = factors;
    });
  };
  // 1, 1, 4.7 and 8. The largest is the configuration's factor, so the third is changed.
  CHECK(with_factors([](Tensor& x) { x.data<float>()[2] *= 1.0005f; }) == "accepted");
  CHECK_THAT(with_factors([](Tensor& x) { x.data<float>()[2] *= 1.002f; }),
             Contains("expected Llama 3.1's") && Contains("for pair 2"));
  CHECK_THAT(with_factors([](Tensor& x) { x.data<float>()[0] = 0.99f; }), Contains("for pair 0"));
  CHECK_THAT(with_factors([](Tensor& x) { x = ones({3}); }),
             Contains("tensor \"rope_freqs.weight\": expected the shape (4,), got (3,)"));
}

TEST_CASE("GGUF: frequency factors may be missing only where nothing scales them", "[gguf]") {
  const auto without = [](const char* factor) {
    return changed("llama", [&](GgufFile& f) {
      std::erase_if(f.tensors, [](const auto& one) { return one.first == "rope_freqs.weight"; });
      if (factor) f.metadata["gradus.rotary_factor"] = factor;
    });
  };
  CHECK(without(nullptr) == "accepted");
  CHECK_THAT(without("8.0"),
             Contains("expected a tensor \"rope_freqs.weight\", since rotary_factor is not 1"));
}

TEST_CASE("GGUF: the tokens that begin and end a text and the chat template are kept", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const auto tokenizer = BPETokenizer::train(
      "the the", {.vocab_size = 260, .special = {"<|endoftext|>", "<|im_end|>", "[PAD]"}});
  GPTConfig c = gpt2_config();
  c.vocab = tokenizer.vocab_size();
  const GPT model(c);
  TextInfo text{
      .token_ids = {{"bos_token_id", {2}}, {"eos_token_id", {1, 0}}, {"pad_token_id", {2}}},
      .token_names = {{"pad_token", "[PAD]"}},
      .chat_template = "{{ '[INST] ' }}"};
  const auto written = [&] {
    save_gguf(path, model, &tokenizer, GgufType::f32, &text);
    return models::internal::read_gguf(path).metadata;
  };
  auto metadata = written();
  CHECK(metadata["tokenizer.ggml.bos_token_id"] == 2);
  CHECK(metadata["tokenizer.ggml.eos_token_id"] == 1);
  CHECK(metadata["tokenizer.chat_template"] == text.chat_template);
  TextInfo kept{.token_ids = {{"bos_token_id", {2}}, {"eos_token_id", {1}}},
                .chat_template = text.chat_template};
  CHECK(load_gguf(path).text == kept);

  // The name of a template is not in Jinja, and ids that the model lacks are left out.
  text = {.token_ids = {{"bos_token_id", {-1}}, {"eos_token_id", {c.vocab}}},
          .chat_template = "llama2"};
  metadata = written();
  CHECK_FALSE(metadata.contains("tokenizer.chat_template"));
  CHECK(metadata["tokenizer.ggml.bos_token_id"] == 0);
  CHECK(metadata["tokenizer.ggml.eos_token_id"] == 0);
  kept = {.token_ids = {{"bos_token_id", {0}}, {"eos_token_id", {0}}}, .chat_template = "llama2"};
  CHECK(load_gguf(path).text == kept);

  // The byte that stands in for a missing end is not one.
  const auto without = BPETokenizer::train("the the", {.vocab_size = 258});
  save_gguf(path, model, &without);
  CHECK(load_gguf(path).text == TextInfo());
}

TEST_CASE("GGUF: the token that precedes every text begins it, whatever else is said", "[gguf]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const auto tokenizer = load_tokenizer(all_folders + "llama3");
  GPTConfig c = llama_config();
  c.vocab = tokenizer->vocab_size();
  const int64_t end = tokenizer->special("<|eot_id|>");
  const TextInfo text{.token_ids = {{"bos_token_id", {end}}, {"eos_token_id", {end}}}};
  save_gguf(path, GPT(c), tokenizer.get(), GgufType::f32, &text);
  const GgufModel read = load_gguf(path);
  CHECK(read.tokenizer->begin_ids() == tokenizer->begin_ids());
  const TextInfo kept{
      .token_ids = {{"bos_token_id", tokenizer->begin_ids()}, {"eos_token_id", {end}}}};
  CHECK(read.text == kept);
}

TEST_CASE("is_gguf looks at the first four bytes", "[gguf]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x", "GGUF");
  CHECK(is_gguf(folder / "x"));
  write_file_atomically(folder / "y", "GGML and more");
  CHECK_FALSE(is_gguf(folder / "y"));
}

}  // namespace gradus::testing::gguf_models_test
