// train_gpt --lora: low-rank updates of a finished model.

#include "gradus/models/models.h"
#include "tests/support/train_bench.h"

namespace train_lora_test {

using namespace gradus;
using Catch::Matchers::Contains;

TEST_CASE("train_gpt: --lora trains updates, saves them alone and merged, and resumes") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 3" + bench.out("base")).status == 0);
  const std::string base = "'" + (bench / "base") + "'";
  const std::string flags =
      "--data '" + (bench / "text.txt") + "' --init-from " + base +
      " --lora 2 --lora-alpha 64 --lora-layers qkv,mlp.fc --lora-dropout 0.1" +
      " --lr 0.05 --warmup 0 --eval-every 2 --eval-batches 2";
  const Result whole = run("train_gpt", flags + " --steps 6" + bench.out());
  INFO(whole.output);
  REQUIRE(whole.status == 0);

  // The base, the base with the updates, and the merged model.
  auto adapted = models::load_model<models::GPT>(bench / "base");
  const auto merged = models::load_model<models::GPT>(bench / "out");
  const Tensor ids = randint(0, adapted.config.vocab, {1, 8});
  const EvalMode eval;
  const Tensor before = adapted(ids).detach();
  models::load_adapter(bench / "out", adapted);
  const auto updates = nn::lora_updates(adapted);
  REQUIRE(updates.size() == 2 * adapted.blocks.size());
  CHECK(updates[0].first == "blocks.0.attn.qkv");
  CHECK(updates[0].second.alpha == 64);
  CHECK(updates[0].second.dropout == 0.1);
  CHECK(abs(adapted(ids) - before).max().item() > 1e-3);
  CHECK(abs(adapted(ids) - merged(ids)).max().item() < 1e-4);

  // Interrupted and resumed.
  REQUIRE(run("train_gpt", flags + " --steps 2 --decay-steps 6" + bench.out("parts")).status == 0);
  REQUIRE(run("train_gpt", "--resume --steps 6" + bench.out("parts")).status == 0);
  REQUIRE(run("train_gpt", flags + " --overwrite --steps 6 --decay-steps 6" + bench.out()).status ==
          0);
  for (const char* file : {"model.safetensors", "adapter_model.safetensors", "adapter_config.json"})
    CHECK(bench.file(std::string("parts/") + file) == bench.file(std::string("out/") + file));

  const std::string text = " --prompt t --tokens 20 --temperature 0";
  const Result with =
      run("generate", "--model " + base + " --adapter '" + (bench / "out") + "'" + text);
  CAPTURE(with.output);
  CHECK(with.status == 0);
  CHECK(with.output == run("generate", "--model '" + (bench / "out") + "'" + text).output);
}

TEST_CASE("train_gpt: --lora refuses what it cannot train") {
  const Bench bench;
  CHECK_THAT(run("train_gpt", bench.flags + " --lora 2" + bench.out()).output,
             Contains("--lora trains updates of a finished model: expected --init-from DIR"));
  REQUIRE(run("train_gpt", bench.flags + " --steps 1" + bench.out("base")).status == 0);
  const std::string flags =
      "--data '" + (bench / "text.txt") + "' --init-from '" + (bench / "base") + "' --lora 2";
  CHECK_THAT(run("train_gpt", flags + " --lora-layers nothing" + bench.out()).output,
             Contains("no other linear layer has a name that matches nothing"));
  CHECK_THAT(run("train_gpt", flags + " --lora-layers head" + bench.out()).output,
             Contains("the weight of head is also wte.weight"));
  for (const std::string muon : {" --optimizer muon", " --recipe fast"})
    CHECK_THAT(run("train_gpt", flags + muon + bench.out()).output,
               Contains("--lora trains its updates by AdamW: expected --optimizer adamw"));
  CHECK_FALSE(bench.has("out"));
}

TEST_CASE("train_gpt: --lora-weights freezes compressed weights and writes the updates alone") {
  const std::string type = GENERATE("bfloat16", "int8");
  CAPTURE(type);
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 3" + bench.out("base")).status == 0);
  const std::string base = " --init-from '" + (bench / "base") + "'";
  const std::string data = "--data '" + (bench / "text.txt") + "'" + base;
  const std::string flags = data + " --lora 2 --lora-weights " + type +
                            " --lr 0.05 --warmup 0 --eval-every 2 --eval-batches 2";
  const Result whole = run("train_gpt", flags + " --steps 6" + bench.out());
  INFO(whole.output);
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.output, Contains("--adapter " + (bench / "out")));
  CHECK_FALSE(bench.has("out/model.safetensors"));
  CHECK_FALSE(bench.has("out/best/model.safetensors"));

  // The checkpoint's weights are the compressed ones of the base.
  const std::string packed = bench / "packed";
  REQUIRE(run("convert", "--model '" + (bench / "base") + "' --to '" + packed +
                             "' --format gradus --weights " + type)
              .status == 0);
  std::map<std::string, Tensor> checkpoint;
  for (const auto& [name, t] : load_safetensors(bench / "out/checkpoint.safetensors").tensors)
    checkpoint.emplace(name, t);
  for (const auto& [name, t] : load_safetensors(models::weights_path(packed)).tensors) {
    const Tensor stored = checkpoint.at("model." + name);
    CAPTURE(name);
    CHECK(stored.dtype() == t.dtype());
    if (t.dtype() != int8) CHECK(abs(stored.to(float32) - t.to(float32)).max().item() == 0);
  }

  // Interrupted and resumed.
  REQUIRE(run("train_gpt", flags + " --steps 2 --decay-steps 6" + bench.out("parts")).status == 0);
  REQUIRE(run("train_gpt", "--resume --steps 6" + bench.out("parts")).status == 0);
  REQUIRE(run("train_gpt", flags + " --overwrite --steps 6 --decay-steps 6" + bench.out()).status ==
          0);
  for (const char* file : {"adapter_model.safetensors", "adapter_config.json", "config.json"})
    CHECK(bench.file(std::string("parts/") + file) == bench.file(std::string("out/") + file));

  // Several batches per step.
  const std::string several = flags + " --steps 2 --accumulate 2" + bench.out("several");
  CHECK(run("train_gpt", several).status == 0);

  const Result text = run("generate", "--model '" + packed + "' --adapter '" + (bench / "out") +
                                          "' --prompt t --tokens 5 --temperature 0");
  CAPTURE(text.output);
  CHECK(text.status == 0);
  for (const std::string flag :
       {"--lora-alpha 16", "--lora-dropout 0.1", "--lora-layers attn.qkv", "--lora-weights int8"})
    CHECK_THAT(run("train_gpt", data + ' ' + flag + bench.out("none")).output,
               Contains(flag.substr(0, flag.find(' ')) + " is of low-rank updates"));
}

}  // namespace train_lora_test
