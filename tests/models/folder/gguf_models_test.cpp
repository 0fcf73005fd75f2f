// What a GPT's GGUF file holds, and files whose metadata contradict their tensors.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "gradus/models/folder/gguf/gguf.h"
#include "gradus/models/folder/gguf/gguf_file.h"
#include "gradus/nn/finetune/lora.h"
#include "tests/golden/golden.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

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

}  // namespace

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

TEST_CASE("is_gguf looks at the first four bytes", "[gguf]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x", "GGUF");
  CHECK(is_gguf(folder / "x"));
  write_file_atomically(folder / "y", "GGML and more");
  CHECK_FALSE(is_gguf(folder / "y"));
}

}  // namespace gradus::testing::gguf_models_test
