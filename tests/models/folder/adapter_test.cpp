// Adapters in PEFT's format.

#include "gradus/models/folder/adapter.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gradus/core/core.h"
#include "gradus/models/gpt.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

models::GPT make_model() {
  manual_seed(1);
  return models::GPT({.vocab = 11, .context = 8, .layers = 2, .heads = 2, .dim = 8});
}

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

void replace(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = content(path);
  REQUIRE(text.find(from) != std::string::npos);
  std::ofstream(path) << text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("save_adapter, load_adapter: the updates alone, in PEFT's names", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  CHECK_THROWS_WITH(models::save_adapter(dir / "", model),
                    "save_adapter: the model has no low-rank updates");
  nn::add_lora(model, {.rank = 2, .alpha = 3, .dropout = 0.25, .layers = {"attn.qkv", "fc"}});
  for (const auto& [name, update] : nn::lora_updates(model)) {
    const NoGrad no_grad;
    update.b.copy_(randn(update.b.shape()));
  }
  models::save_adapter(dir / "", model);
  const std::string config = content(dir / "adapter_config.json");
  CHECK_THAT(config, Contains("\"peft_type\": \"LORA\"") && Contains("\"r\": 2") &&
                         Contains("\"lora_alpha\": 3.0") && Contains("\"lora_dropout\": 0.25") &&
                         Contains("\"blocks.1.mlp.fc\""));
  const SafetensorsFile file = load_safetensors(dir / "adapter_model.safetensors");
  CHECK(file.tensors.size() == 8);
  CHECK(file.tensors[0].first == "base_model.model.blocks.0.attn.qkv.lora_A.weight");
  CHECK(file.tensors[1].second.shape() == Shape{24, 2});

  models::GPT other = make_model();
  models::load_adapter(dir / "", other);
  const Tensor ids = randint(0, 11, {2, 8});
  const EvalMode eval;
  CHECK(same_bits(model(ids).detach(), other(ids).detach()));
  const auto updates = nn::lora_updates(other);
  REQUIRE(updates.size() == 4);
  CHECK(updates[0].second.alpha == 3);
  CHECK(updates[0].second.dropout == 0.25);
  CHECK(updates[0].second.a.requires_grad());
  CHECK_FALSE(other.wte.weight.requires_grad());
}

TEST_CASE("load_adapter: refuses files that do not fit, with nothing changed", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  const std::string config = dir / "adapter_config.json",
                    weights = dir / "adapter_model.safetensors";
  struct Case {
    std::string from, to, message;
  };
  for (const Case& c :
       {Case{"\"r\": 2", "\"r\": 3", "expected shape (3, 8), got (2, 8)"},
        Case{"\"r\": 2", "\"r\": 2.5", "r: expected a whole number, got 2.5"},
        Case{"\"r\": 2", "\"q\": 2", "r is missing"},
        Case{"\"LORA\"", "\"IA3\"", "peft_type: expected"},
        Case{"\"none\"", "\"all\"", "bias: expected"},
        Case{"\"bias\"", "\"use_dora\": true, \"bias\"", "use_dora: expected false"},
        Case{"16.0", "\"16\"", "lora_alpha: expected a number"},
        Case{"\"r\"", "\"r", "adapter_config.json"}}) {
    CAPTURE(c.from, c.to);
    replace(config, c.from, c.to);
    models::GPT other = make_model();
    CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                      Contains(c.message) && Contains(dir / ""));
    CHECK(nn::lora_updates(other).empty());
    CHECK(other.wte.weight.requires_grad());
    models::save_adapter(dir / "", model);
  }
  models::GPT shallow({.vocab = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8});
  CHECK_THROWS_WITH(models::load_adapter(dir / "", shallow),
                    Contains("the model has no layer") && Contains("blocks.1.attn.proj"));
  for (const char* name : {"base_model.model.blocks.0.attn.proj.lora_A.weight", "x"}) {
    save_safetensors(weights, {{name, zeros({2, 8})}});
    models::GPT other = make_model();
    CHECK_THROWS_WITH(models::load_adapter(dir / "", other), Contains("adapter_model.safetensors"));
  }
  std::filesystem::remove(weights);
  models::GPT other = make_model();
  CHECK_THROWS_WITH(models::load_adapter(dir / "", other), Contains("No such file"));
}
