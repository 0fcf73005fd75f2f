// What a model is without further options: its configuration and its initial weights.

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gradus/core/ops/ops.h"
#include "gradus/models/models.h"
#include "gradus/nn/nn.h"

namespace defaults_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// The default configuration as JSON, without quotes and braces.
template <class Model>
std::string defaults_of() {
  typename Model::Config config;
  std::string text = Model::fields(config).to_json();
  std::erase_if(text, [](char c) { return c == '"' || c == '{' || c == '}'; });
  return text;
}

double largest(const Tensor& x) { return max(abs(x.detach())).item(); }
double deviation(const Tensor& x) { return std_dev(x.detach().flatten()).item(); }

/// Checks that x is uniform in [-bound, bound].
void check_uniform(const Tensor& x, double bound) {
  CHECK(largest(x) <= bound);
  CHECK(largest(x) > 0.9 * bound);
  CHECK(deviation(x) == Approx(bound / std::sqrt(3.0)).epsilon(0.1));
}

/// Checks that x is normal with this standard deviation.
void check_normal(const Tensor& x, double expected) {
  CHECK(deviation(x) == Approx(expected).epsilon(0.1));
  CHECK(largest(x) > 2.5 * expected);
}

}  // namespace

// Folders and programs of earlier versions rely on these.
TEST_CASE("default configurations of models", "[models]") {
  CHECK(defaults_of<models::GPT>() ==
        "vocab:0,context:64,layers:4,heads:4,dim:128,dropout:0.0,bias:false,tie:true,activation:"
        "gelu,gated:false,hidden:0,kv_heads:0,head_dim:0,qkv_bias:false,positions:learned,rotary_"
        "theta:10000.0,rotary_factor:1.0,rotary_low_turns:1.0,rotary_high_turns:4.0,rotary_trained_"
        "context:8192,norm:layer,norm_eps:1e-05,window:0,qk_norm:false,zero_init:false,value_"
        "shortcut:false,embedding_shortcut:false,logit_cap:0.0,bigram:false,token_shift:false");
  CHECK(defaults_of<models::Bert>() ==
        "vocab:0,context:128,segments:2,layers:4,heads:4,dim:128,hidden:0,dropout:0.1,activation:"
        "gelu,norm_eps:1e-12");
  CHECK(defaults_of<models::BertClassifier>() ==
        "vocab:0,context:128,segments:2,layers:4,heads:4,dim:128,hidden:0,dropout:0.1,activation:"
        "gelu,norm_eps:1e-12,classes:2,tokens:false");
  CHECK(defaults_of<models::Transformer>() ==
        "source_vocab:0,target_vocab:0,context:128,layers:3,heads:4,dim:128,hidden:0,dropout:0.1,"
        "activation:relu,pre_norm:false,tie:true,shared_vocab:false");
  CHECK(defaults_of<models::RNNTranslator>() ==
        "source_vocab:0,target_vocab:0,context:128,layers:1,dim:64,hidden:128,dropout:0.1,cell:gru,"
        "score:additive");
  CHECK(defaults_of<models::ViT>() ==
        "image:32,channels:3,patch:4,classes:10,layers:4,heads:4,dim:64,hidden:0,dropout:0.0,"
        "pooling:token,norm_eps:1e-05");
  CHECK(defaults_of<models::MAE>() ==
        "image:32,channels:3,patch:4,classes:0,layers:4,heads:4,dim:64,hidden:0,dropout:0.0,"
        "pooling:token,norm_eps:1e-05,decoder_layers:2,decoder_heads:4,decoder_dim:32,mask_ratio:0."
        "75,normalise:true");
  CHECK(defaults_of<models::CLIP>() ==
        "image:32,channels:3,patch:4,classes:0,layers:4,heads:4,dim:64,hidden:0,dropout:0.0,"
        "pooling:token,norm_eps:1e-05,vocab:0,context:16,text_layers:2,text_heads:4,text_dim:64,"
        "causal:true,text_pooling:token,shared:64");
  CHECK(defaults_of<models::Captioner>() ==
        "vocab:0,context:16,image:32,channels:3,filters:32,convolutions:3,dim:64,hidden:128,"
        "dropout:0.0,cell:lstm,coverage:0.0");
  CHECK(defaults_of<models::CNNAttention>() ==
        "image:32,channels:3,classes:10,filters:32,attention:true");
  CHECK(defaults_of<models::SimCLR<models::ViT>>() ==
        "image:32,channels:3,patch:4,classes:0,layers:4,heads:4,dim:64,hidden:0,dropout:0.0,"
        "pooling:token,norm_eps:1e-05,projection_hidden:128,projection:64,temperature:0.5");
}

namespace {
/// The message of the configuration's check with this value of a field.
template <class Model>
std::string refusal(const char* field, const char* value) {
  typename Model::Config config;
  try {
    Model::fields(config).find(field)->set("value", value);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
}  // namespace

TEMPLATE_TEST_CASE("a dropout probability is below 1", "[models]", models::GPT, models::Bert,
                   models::Transformer, models::RNNTranslator, models::ViT, models::Captioner) {
  CHECK(refusal<TestType>("dropout", "0.9") == "");
  CHECK_THAT(refusal<TestType>("dropout", "1"), Contains("a number from 0 to 0.999999"));
}

namespace {
/// The names of a configuration's whole numbers that may be 0, each with a space after it.
template <class Model>
std::string may_be_0() {
  typename Model::Config config;
  const models::Fields fields = Model::fields(config);
  std::string names;
  for (const models::Field& field : fields.list())
    if (std::holds_alternative<int64_t*>(field.value) &&
        refusal<Model>(field.name.c_str(), "0").empty())
      names += field.name + ' ';
  return names;
}
}  // namespace

TEST_CASE("no size of a model is 0, unless 0 has a meaning", "[models]") {
  CHECK(may_be_0<models::GPT>() == "hidden kv_heads head_dim window ");
  CHECK(may_be_0<models::BertClassifier>() == "hidden ");
  CHECK(may_be_0<models::Transformer>() == "hidden ");
  CHECK(may_be_0<models::RNNTranslator>() == "");
  CHECK(may_be_0<models::Captioner>() == "");
  CHECK(may_be_0<models::CNNAttention>() == "classes ");
  CHECK(may_be_0<models::MAE>() == "patch classes hidden ");
  CHECK(may_be_0<models::CLIP>() == "patch classes hidden ");
}

TEST_CASE("default options of decoding and of probes", "[models]") {
  const models::SamplingOptions s;
  CHECK((s.temperature == 1 && s.top_k == 0 && s.top_p == 1 && s.min_p == 0));
  CHECK((s.repetition_penalty == 1 && s.logit_bias.empty()));
  const models::GenerateOptions text;
  CHECK((text.tokens == 100 && text.seed == 0 && text.vocab == 0 && text.stop_token == -1));
  const models::BeamSearchOptions search;
  CHECK((search.beams == 1 && search.tokens == 100 && search.length_penalty == 0.6));
  const models::LinearProbeOptions linear;
  CHECK((linear.steps == 300 && linear.lr == 0.05 && linear.weight_decay == 1e-3));
  const models::NeighbourOptions neighbours;
  CHECK((neighbours.k == 20 && neighbours.temperature == 0.07));
}

TEMPLATE_TEST_CASE("configurations written before norm_eps was a field are read", "[models]",
                   models::GPT, models::Bert, models::ViT) {
  typename TestType::Config config;
  if constexpr (requires { config.vocab; }) config.vocab = 9;
  const models::Fields fields = TestType::fields(config);
  auto json = nlohmann::json::parse(fields.to_json());
  CHECK(json.erase("norm_eps") == 1);
  const double initial = config.norm_eps;
  config.norm_eps = 0.5;
  fields.read_json("config.json", json.dump());
  CHECK(config.norm_eps == initial);
}

TEST_CASE("layers start with PyTorch's initial weights", "[nn]") {
  manual_seed(1);
  const nn::Linear linear(64, 100);
  check_uniform(linear.weight, 1 / std::sqrt(64.0));
  check_uniform(linear.bias, 1 / std::sqrt(64.0));
  const nn::Conv2d conv(6, 80, 5);
  check_uniform(conv.weight, 1 / std::sqrt(6.0 * 25));
  check_uniform(conv.bias, 1 / std::sqrt(6.0 * 25));
  const nn::Conv1d line(6, 80, 5);
  check_uniform(line.weight, 1 / std::sqrt(6.0 * 5));
  check_uniform(line.bias, 1 / std::sqrt(6.0 * 5));
  const nn::ConvTranspose2d transposed(6, 80, 5);  // PyTorch's fan counts the outputs here
  check_uniform(transposed.weight, 1 / std::sqrt(80.0 * 25));
  check_uniform(transposed.bias, 1 / std::sqrt(80.0 * 25));
  check_normal(nn::Embedding(100, 50).weight, 1);
  check_normal(nn::LearnedPositions(100, 50).weight, 1);
  const nn::LSTM lstm(7, 49);
  for (const Tensor& p : lstm.parameters()) check_uniform(p, 1 / 7.0);
  const nn::GRUCell cell(7, 49);
  for (const Tensor& p : cell.parameters()) check_uniform(p, 1 / 7.0);
  const nn::LayerNorm norm(3);
  CHECK(norm.weight.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(norm.bias.to_vector<float>() == std::vector<float>{0, 0, 0});
}

TEST_CASE("models start with the initial weights of their papers", "[models]") {
  manual_seed(1);
  const models::Bert bert({.vocab = 200, .layers = 1, .heads = 2, .dim = 64});
  for (const auto& [name, p] : bert.named_parameters()) {
    CAPTURE(name);
    if (p.rank() >= 2 && p.numel() > 200) check_normal(p, 0.02);
    if (name.ends_with("bias")) CHECK(largest(p) == 0);
  }
  const models::BertClassifier classifier(
      {.bert = {.vocab = 9, .layers = 1, .heads = 2, .dim = 64}, .classes = 50});
  check_normal(classifier.head.weight, 0.02);
  CHECK(largest(classifier.head.bias) == 0);
  const models::CLIP clip({.vocab = 200});
  check_normal(clip.text.tokens.weight, 0.02);
  check_uniform(clip.image.blocks[0].mlp.fc.weight, std::sqrt(6.0 / (64 + 256)));
  CHECK(clip.logit_scale.item() == Approx(std::log(1 / 0.07)));
  const models::MAE mae({.encoder = {.classes = 0}});
  check_uniform(mae.encoder.blocks[0].mlp.fc.weight, std::sqrt(6.0 / (64 + 256)));
  const models::Captioner captioner({.vocab = 9});
  check_normal(captioner.convolutions[1].weight, std::sqrt(2 / (32 * 9.0)));
  CHECK(largest(captioner.convolutions[1].bias) == 0);
  const models::CNNAttention cnn({});
  check_normal(cnn.conv2.weight, std::sqrt(2 / (32 * 9.0)));
}

}  // namespace defaults_test
