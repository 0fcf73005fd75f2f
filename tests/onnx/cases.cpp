// Writes models as ONNX files, with inputs and the outputs that gradus computes for them.
//
//   build/bin/onnx_cases DIR
//
// For each model, DIR/NAME.onnx and DIR/NAME.json, a list of cases {inputs, outputs}: by name, the
// dtype, dims and data of each tensor. tests/onnx/check.mjs compares them with onnxruntime's.

#include <gradus/gradus.h>

#include <nlohmann/json.hpp>

#include "examples/onnx/models.h"
#include "examples/support/cli.h"

using namespace gradus;
using namespace gradus::models;
using Json = nlohmann::json;
using Values = std::vector<std::pair<std::string, Tensor>>;

namespace {

struct Case {
  Values inputs, outputs;
};

Json to_json(const Values& values) {
  Json all = Json::object();
  for (const auto& [name, x] : values) {
    const Shape& shape = x.shape();
    Json& value = all[name];
    value["dims"] = std::vector<int64_t>(shape.begin(), shape.end());
    if (x.dtype() == float32)
      value.update({{"dtype", "float32"}, {"data", x.to_vector<double>()}});
    else
      value.update({{"dtype", x.dtype() == int64 ? "int64" : "bool"},
                    {"data", x.to(int64).to_vector<int64_t>()}});
  }
  return all;
}

class Writer {
 public:
  explicit Writer(std::string dir) : dir_(std::move(dir)) {}
  /// Writes a model with random weights, and cases(model, size) for sizes 1, 2 and 3.
  template <class Model, class Cases>
  void add(const std::string& name, const typename Model::Config& config, const Cases& cases,
           const ChannelStats& stats = {}) const {
    const NoGrad no_grad;
    const EvalMode eval;
    manual_seed(1);
    Model model(config);
    for (const Tensor& p : model.parameters()) p.add_(nn::init::normal(p.shape(), 0, 0.2));
    Json list = Json::array();
    for (int64_t size = 1; size <= 3; ++size) {
      const Case one = cases(model, size);
      list.push_back({{"inputs", to_json(one.inputs)}, {"outputs", to_json(one.outputs)}});
    }
    write_file_atomically(dir_ + '/' + name + ".json", list.dump());
    if constexpr (requires { to_onnx(model, stats); })
      write_file_atomically(dir_ + '/' + name + ".onnx", to_onnx(model, stats));
    else
      write_file_atomically(dir_ + '/' + name + ".onnx", to_onnx(model));
  }

 private:
  std::string dir_;
};

Tensor random_ids(int64_t rows, int64_t columns, int64_t vocab) {
  return floor(rand({rows, columns}) * static_cast<double>(vocab)).to(int64);
}

/// Lengths 1, 5 and 8 (the context), of 1, 2 and 3 texts.
int64_t length_of(int64_t size) { return size == 1 ? 1 : size == 2 ? 5 : 8; }

// ---- texts ----

Case gpt_case(const GPT& model, int64_t size) {
  const Tensor ids = random_ids(size, length_of(size), model.config.vocab);
  return {{{"ids", ids}}, {{"logits", model(ids)}}};
}

void add_gpts(const Writer& w) {
  const auto add = [&](const std::string& name, GPTConfig c) {
    c.vocab = 11, c.context = 8, c.layers = 3, c.dim = 16;
    w.add<GPT>("gpt-" + name, c, gpt_case);
  };
  add("default", {});
  for (const Activation a : core::activations)
    add(std::string("activation-") + core::name_of(a), {.activation = a});
  add("llama", {.tie = false,
                .activation = Activation::silu,
                .gated = true,
                .kv_heads = 2,
                .positions = Positions::rotary,
                .norm = nn::NormKind::rms,
                .norm_eps = 1e-2,
                .window = 3});
  add("qwen", {.gated = true,
               .hidden = 24,
               .kv_heads = 1,
               .head_dim = 6,
               .qkv_bias = true,
               .positions = Positions::rotary,
               .rotary = {.theta = 100, .factor = 4, .trained_context = 32},
               .norm = nn::NormKind::rms,
               .qk_norm = true});
  add("sinusoidal", {.bias = true, .positions = Positions::sinusoidal, .norm_eps = 0.1});
  add("shortcuts", {.heads = 2, .value_shortcut = true, .embedding_shortcut = true});
  add("capped", {.logit_cap = 2, .bigram = true});
  add("shifted", {.window = 2, .token_shift = true});
  add("recomputed", {.dropout = 0.5, .zero_init = true, .recompute = 1, .logit_rows = 4});
}

BertInput bert_input(const BertConfig& c, int64_t size) {
  const int64_t length = length_of(size);
  Tensor mask = rand({size, length}) > 0.3;
  if (size == 3) mask = logical_and(mask, arange(size).reshape({size, 1}) > 0);  // a row of padding
  return {random_ids(size, length, c.vocab), random_ids(size, length, c.segments), mask};
}

Values inputs_of(const BertInput& in) {
  return {{"ids", in.ids}, {"segments", in.segments}, {"mask", in.mask}};
}

void add_berts(const Writer& w) {
  const BertConfig small{.vocab = 11, .context = 8, .layers = 2, .dim = 16},
      other{.vocab = 7,
            .context = 9,
            .segments = 3,
            .layers = 1,
            .heads = 2,
            .dim = 12,
            .hidden = 20,
            .activation = Activation::gelu_tanh,
            .norm_eps = 0.1};
  const auto of_bert = [](const Bert& model, int64_t size) -> Case {
    const BertInput in = bert_input(model.config, size);
    const Tensor hidden = model(in);
    return {inputs_of(in),
            {{"hidden", hidden},
             {"word_logits", model.word_logits(hidden)},
             {"next_logits", model.next(model.pooled(hidden))}}};
  };
  const auto of_classifier = [](const BertClassifier& model, int64_t size) -> Case {
    const BertInput in = bert_input(model.config.bert, size);
    return {inputs_of(in), {{"logits", model(in)}}};
  };
  w.add<Bert>("bert-default", small, of_bert);
  w.add<Bert>("bert-options", other, of_bert);
  w.add<BertClassifier>("bert-texts", {.bert = small, .classes = 3}, of_classifier);
  w.add<BertClassifier>("bert-tokens", {.bert = other, .classes = 4, .tokens = true},
                        of_classifier);
}

// ---- images ----

Tensor random_images(const auto& config, int64_t count) {
  return rand({count, config.channels, config.image, config.image});
}

/// `stats` are those of the graph; gradus normalises before the model.
auto image_case(const ChannelStats& stats) {
  return [stats](const auto& model, int64_t size) -> Case {
    const Tensor images = random_images(model.config, size), x = normalize(images, stats);
    if (model.head) return {{{"images", images}}, {{"logits", model(x)}}};
    return {{{"images", images}}, {{"features", model.features(x)}}};
  };
}

void add_image_models(const Writer& w) {
  const ChannelStats none, rgb{{0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}};
  w.add<ViT>("vit-default", {.image = 12, .dim = 16}, image_case(rgb), rgb);
  w.add<ViT>("vit-mean",
             {.image = 9,
              .channels = 1,
              .patch = 3,
              .classes = 0,
              .layers = 1,
              .heads = 2,
              .dim = 8,
              .hidden = 12,
              .pooling = Pooling::mean,
              .norm_eps = 0.1},
             image_case(none));
  w.add<CNNAttention>("cnn-default", {.image = 12, .filters = 8}, image_case(rgb), rgb);
  w.add<CNNAttention>("cnn-plain",
                      {.image = 11, .channels = 1, .classes = 4, .filters = 3, .attention = false},
                      image_case(none));
  w.add<CNNAttention>("cnn-features", {.image = 6, .classes = 0, .filters = 2}, image_case(none));
  w.add<DigitNet>("digits", {.pixels = 20, .hidden = 8, .activation = Activation::tanh},
                  [](const DigitNet& model, int64_t size) -> Case {
                    const Tensor images = rand({size, 4, 5});
                    return {{{"images", images}}, {{"logits", model(images)}}};
                  });
}

void add_clips(const Writer& w) {
  const auto of_clip = [](const CLIP& model, int64_t size) -> Case {
    const int64_t texts = 4 - size, length = length_of(size);
    const Tensor images = random_images(model.config.image, size),
                 ids = random_ids(texts, length, model.config.vocab),
                 lengths = floor(rand({texts}) * static_cast<double>(length)).to(int64) + 1;
    const Tensor a = model.image_features(images), b = model.text_features({ids, lengths});
    return {{{"images", images}, {"ids", ids}, {"lengths", lengths}},
            {{"image_features", a}, {"text_features", b}, {"similarity", model.similarity(a, b)}}};
  };
  CLIPConfig c{.image = {.image = 8, .classes = 0, .layers = 1, .dim = 16},
               .vocab = 9,
               .context = 8,
               .text_heads = 2,
               .text_dim = 12,
               .shared = 6};
  w.add<CLIP>("clip-default", c, of_clip);
  c.text_pooling = Pooling::mean, c.image.pooling = Pooling::mean;
  w.add<CLIP>("clip-mean", c, of_clip);
  c.causal = false;
  w.add<CLIP>("clip-both-ways", c, of_clip);
}

void add_captioners(const Writer& w) {
  const auto of_encoder = [](const Captioner& model, int64_t size) -> Case {
    const Tensor images = random_images(model.config, size), a = model.annotations(images);
    return {{{"images", images}},
            {{"annotations", a}, {"state", model.first(mean(a, 1), Activation::tanh)}}};
  };
  w.add<Captioner>("captioner-default", {.vocab = 5, .image = 16, .filters = 4, .hidden = 8},
                   of_encoder);
  w.add<Captioner>("captioner-gru",
                   {.vocab = 5,
                    .image = 13,
                    .channels = 1,
                    .filters = 3,
                    .convolutions = 2,
                    .hidden = 6,
                    .cell = Recurrence::gru},
                   of_encoder);
}

int run(int argc, char** argv) {
  core::check(argc == 2, "expected a folder");
  const Writer writer(argv[1]);
  add_gpts(writer);
  add_berts(writer);
  add_image_models(writer);
  add_clips(writer);
  add_captioners(writer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("onnx_cases", argc, argv, run); }
