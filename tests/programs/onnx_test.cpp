// Exported models: what the file holds, and what is refused. tests/onnx/run compares what the
// graphs compute with onnxruntime.

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "examples/onnx/graph.h"
#include "examples/onnx/layers.h"
#include "examples/onnx/models.h"
#include "gradus/core/core.h"
#include "gradus/models/folder/image_info.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/transformer.h"
#include "gradus/nn/finetune/lora.h"
#include "tests/support/programs.h"

namespace onnx_test {

using Catch::Matchers::Contains;
using namespace gradus;

namespace {

const models::GPTConfig tiny{.vocab = 5, .context = 4, .layers = 2, .heads = 2, .dim = 8};

::onnx::ModelProto parsed(const std::string& bytes) {
  ::onnx::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  return model;
}

/// An input's or output's name and sizes, such as "ids batch length".
std::string described(const ::onnx::ValueInfoProto& value) {
  std::string text = value.name();
  for (const auto& dim : value.type().tensor_type().shape().dim())
    text += ' ' + (dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  return text;
}

std::vector<std::string> described(const auto& values) {
  std::vector<std::string> all;
  for (const auto& value : values) all.push_back(described(value));
  return all;
}

/// The message of the Error that f throws.
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ONNX: a GPT's file has free sizes, standard operators and the state dict's names",
          "[onnx]") {
  const models::GPT gpt(tiny);
  const ::onnx::ModelProto model = parsed(to_onnx(gpt));
  const auto& graph = model.graph();
  CHECK(model.ir_version() == 8);
  REQUIRE(model.opset_import_size() == 1);
  CHECK(model.opset_import(0).domain().empty());
  CHECK(model.opset_import(0).version() == 17);
  CHECK(described(graph.input()) == std::vector<std::string>{"ids batch length"});
  CHECK(graph.input(0).type().tensor_type().elem_type() == ::onnx::TensorProto::INT64);
  CHECK(described(graph.output()) == std::vector<std::string>{"logits batch length 5"});

  std::map<std::string, const ::onnx::TensorProto*> tensors;
  for (const auto& tensor : graph.initializer())
    CHECK(tensors.emplace(tensor.name(), &tensor).second);
  for (const auto& [name, weight] : gpt.named_parameters()) {
    CAPTURE(name);
    REQUIRE(tensors.contains(name));
    const ::onnx::TensorProto& tensor = *tensors[name];
    CHECK(Shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end())) ==
          weight.shape());
    const auto* data = reinterpret_cast<const char*>(weight.data<float>());
    CHECK(tensor.raw_data() == std::string(data, data + 4 * weight.numel()));
  }
  CHECK_FALSE(tensors.contains("head.weight"));  // tied to the embedding
  int64_t masks = 0;
  for (const auto& node : graph.node()) {
    CHECK(node.domain().empty());
    masks += node.op_type() == "LessOrEqual";
  }
  CHECK(masks == 1);  // the blocks share one
}

TEST_CASE("ONNX: inputs and outputs of the other models", "[onnx]") {
  using Names = std::vector<std::string>;
  const auto check = [](const std::string& bytes, const Names& inputs, const Names& outputs) {
    const ::onnx::ModelProto model = parsed(bytes);
    CHECK(described(model.graph().input()) == inputs);
    CHECK(described(model.graph().output()) == outputs);
  };
  const models::BertConfig bert{.vocab = 5, .context = 4, .layers = 1, .heads = 1, .dim = 4};
  const Names texts{"ids batch length", "segments batch length", "mask batch length"};
  check(to_onnx(models::Bert(bert)), texts,
        {"hidden batch length 4", "word_logits batch length 5", "next_logits batch 2"});
  check(to_onnx(models::BertClassifier({.bert = bert, .classes = 3})), texts, {"logits batch 3"});
  check(to_onnx(models::BertClassifier({.bert = bert, .classes = 3, .tokens = true})), texts,
        {"logits batch length 3"});
  models::ViTConfig vit{.image = 8, .classes = 0, .layers = 1, .heads = 1, .dim = 4};
  check(to_onnx(models::CLIP({.image = vit, .vocab = 5, .shared = 6})),
        {"images images 3 8 8", "ids texts length", "lengths texts"},
        {"image_features images 6", "text_features texts 6", "similarity images texts"});
  check(to_onnx(models::ViT(vit)), {"images batch 3 8 8"}, {"features batch 4"});
  check(to_onnx(models::CNNAttention({.image = 8, .filters = 2})), {"images batch 3 8 8"},
        {"logits batch 10"});
  check(to_onnx(models::Captioner({.vocab = 5, .image = 8, .filters = 2, .hidden = 6})),
        {"images batch 3 8 8"}, {"annotations batch 1 8", "state batch 12"});
  check(to_onnx(DigitNet({})), {"images batch height width"}, {"logits batch 10"});
}

TEST_CASE("ONNX: what a file cannot hold is refused by name", "[onnx][error]") {
  models::GPT gpt(tiny);
  {
    OnnxGraph graph(gpt);
    CHECK(error_of([&] {
            graph.weight(zeros({2, 3}));
          }) == "ONNX: a tensor (2, 3) is not a parameter or buffer of the model");
    const Tensor large =
        gpt.wte.weight.detach().slice(0, 0, 1).slice(1, 0, 1).expand({1 << 20, 1 << 10});
    CHECK(
        error_of([&] { graph.weight(large); }) ==
        "ONNX: the weights exceed 2 GB, the most that an ONNX file can hold: 'wte.weight' follows "
        "0 bytes with 4294967296");
  }
  CHECK_THAT(error_of([&] {
               to_onnx(models::ViT({.image = 8, .dim = 4}), {{0.5}, {0.5}});
             }),
             Contains("expected the statistics of 3 channels, got 1"));
  const nn::Block block(8, {.heads = 2, .value_shortcut = true});
  OnnxGraph graph(block);
  OnnxValue none;
  for (OnnxValue* const first_values : {static_cast<OnnxValue*>(nullptr), &none})
    CHECK(error_of([&] { onnx_block(graph, block, "x", {"positions"}, first_values); }) ==
          "onnx_block: value_shortcut needs the values of a first block without it");
  nn::add_lora(gpt, {.layers = {"blocks.1.mlp.fc"}});
  CHECK(error_of([&] { to_onnx(gpt); }) ==
        "ONNX: layer 'blocks.1.mlp.fc' has a low-rank update: merge it first");
  models::GPT compressed(tiny);
  compressed.to(int8);
  CHECK(error_of([&] { to_onnx(compressed); }) ==
        "ONNX: expected weights in float32, 'wte.weight' is int8");
}

TEST_CASE("convert: to ONNX, with an image model's statistics", "[onnx][programs]") {
  TemporaryFolder scratch;
  const models::ViT vit({.image = 8, .classes = 2, .layers = 1, .heads = 1, .dim = 4});
  const models::ImageInfo info{{{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}}, {"a", "b"}};
  models::save_model(scratch / "vit", vit);
  models::save_image_info(scratch / "vit", info);
  const std::string file = scratch / "new/vit.onnx",
                    flags = "--model " + (scratch / "vit") + " --format onnx --to " + file;
  const Result done = run("convert", flags);
  CHECK(done.output == "wrote " + file + '\n');
  CHECK(done.status == 0);
  CHECK(read_file(file) == to_onnx(vit, info.stats));
  CHECK(read_file(file) != to_onnx(vit));

  const Result twice = run("convert", flags);
  CHECK(twice.status == 1);
  CHECK_THAT(twice.output, Contains(file + " already exists"));
  const Result small_weights = run("convert", flags + "2 --weights int8");
  CHECK(small_weights.status == 1);
  CHECK_THAT(small_weights.output, Contains("--weights: bfloat16 and int8 need --format gradus"));

  const models::Transformer translator(
      {.source_vocab = 5, .target_vocab = 5, .layers = 1, .heads = 1, .dim = 4});
  models::save_model(scratch / "translator", translator);
  const std::string other = scratch / "other.onnx";
  const Result refused =
      run("convert", "--model " + (scratch / "translator") + " --format onnx --to " + other);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output,
             Contains("expected one of gpt, bert, bert-classifier, vit, cnn_attention, clip, "
                      "captioner, digit-net, got \"transformer\""));
  CHECK_FALSE(std::filesystem::exists(other));
}

}  // namespace onnx_test
