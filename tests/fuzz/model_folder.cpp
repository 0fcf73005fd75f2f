// Fuzzes model folders: config.json, images.json, text.json and the weights.

#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/folder/image_info.h"
#include "gradus/models/models.h"
#include "tests/fuzz/fuzz.h"

namespace model_folder_fuzz {

using namespace gradus;
using namespace gradus::models;

namespace {

std::string folder() { return fuzz::path_of(""); }

template <class M>
std::string saved(const typename M::Config& config) {
  save_model(folder(), M(config));
  return fuzz::join({read_file(config_path(folder())), read_file(weights_path(folder()))});
}

/// Like saved(), in Hugging Face's format.
template <class M>
std::string theirs(const typename M::Config& config) {
  save_hugging_face(folder(), M(config));
  return fuzz::join({read_file(config_path(folder())), read_file(weights_path(folder()))});
}

const ViTConfig vit{
    .image = 2, .channels = 1, .patch = 2, .classes = 0, .layers = 1, .heads = 1, .dim = 2};
const BertConfig bert{.vocab = 2, .context = 2, .layers = 1, .heads = 1, .dim = 2};

ViTConfig vit_with_head() {
  ViTConfig config = vit;
  config.classes = 2;
  return config;
}

std::vector<std::string> our_seeds() {
  ViTConfig four = vit;  // with four patches
  four.image = 4;
  return {
      saved<GPT>({.vocab = 2, .context = 2, .layers = 1, .heads = 1, .dim = 2}),
      saved<GPT>({.vocab = 2,
                  .context = 2,
                  .layers = 1,
                  .heads = 2,
                  .dim = 4,
                  .gated = true,
                  .kv_heads = 1,
                  .positions = Positions::rotary,
                  .norm = nn::NormKind::rms,
                  .window = 1}),
      saved<GPT>({.vocab = 2,
                  .context = 2,
                  .layers = 1,
                  .heads = 1,
                  .dim = 2,
                  .bias = true,
                  .tie = false,
                  .positions = Positions::sinusoidal}),
      saved<Bert>(bert),
      saved<BertClassifier>({.bert = bert}),
      saved<Transformer>(
          {.source_vocab = 2, .target_vocab = 2, .context = 2, .layers = 1, .heads = 1, .dim = 2}),
      saved<RNNTranslator>(
          {.source_vocab = 2, .target_vocab = 2, .context = 2, .dim = 2, .hidden = 2}),
      saved<ViT>(vit_with_head()),
      saved<MAE>({.encoder = four, .decoder_layers = 1, .decoder_heads = 1, .decoder_dim = 4}),
      saved<CLIP>({.image = vit,
                   .vocab = 2,
                   .context = 2,
                   .text_layers = 1,
                   .text_heads = 1,
                   .text_dim = 2,
                   .shared = 2}),
      saved<Captioner>({.vocab = 2,
                        .context = 2,
                        .image = 2,
                        .channels = 1,
                        .filters = 1,
                        .convolutions = 1,
                        .dim = 2,
                        .hidden = 2}),
      saved<CNNAttention>({.image = 4, .channels = 1, .classes = 2, .filters = 1}),
      saved<SimCLR<ViT>>({.encoder = vit, .projection_hidden = 2, .projection = 2})};
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = our_seeds();
  all.push_back(theirs<GPT>({.vocab = 2, .context = 2, .layers = 1, .heads = 1, .dim = 2}));
  GPTConfig llama{.vocab = 2,
                  .context = 2,
                  .layers = 1,
                  .heads = 1,
                  .dim = 2,
                  .activation = Activation::silu,
                  .gated = true,
                  .positions = Positions::rotary,
                  .norm = nn::NormKind::rms};
  all.push_back(theirs<GPT>(llama));
  llama.window = 1, llama.qkv_bias = true;
  all.push_back(theirs<GPT>(llama));
  llama.qkv_bias = false, llama.qk_norm = true, llama.rotary.factor = 2;
  all.push_back(theirs<GPT>(llama));
  all.push_back(theirs<Bert>(bert));
  all.push_back(theirs<BertClassifier>({.bert = bert}));
  all.push_back(theirs<ViT>(vit_with_head()));
  return all;
}

/// Loads a model as the listed type that has this kind.
template <class M, class... Others>
void load(const std::string& kind) {
  if (kind == M::kind)
    load_model<M>(folder());
  else if constexpr (sizeof...(Others) > 0)
    load<Others...>(kind);
}

void run(const std::string& bytes) {
  fuzz::past_checksum(
      bytes,
      [](const std::string& all) {
        auto parts = fuzz::split(all, 2);
        return fuzz::join({parts[0], fuzz::repair_safetensors(parts[1])});
      },
      [](const std::string& all) {
        const auto parts = fuzz::split(all, 2);
        fuzz::write(parts[0], "config.json");
        fuzz::write(parts[1], "model.safetensors");
        load<GPT, Bert, BertClassifier, Transformer, RNNTranslator, ViT, MAE, CLIP, Captioner,
             CNNAttention, SimCLR<ViT>>(model_kind(folder()));
      });
}

// Seeds: Hugging Face's config.json, an index, and the weights, in the shard a.safetensors.
std::vector<std::string> index_seeds() {
  const auto with_index = [](const std::string& whole, const std::string& index) {
    const auto parts = fuzz::split(whole, 2);
    return fuzz::join({parts[0], index, parts[1]});
  };
  return {
      with_index(theirs<Bert>(bert), R"({"weight_map": {"pooler.dense.bias": "a.safetensors"}})"),
      with_index(theirs<ViT>(vit_with_head()),
                 R"({"metadata": {"total_size": 9}, "weight_map": {"a": "a.safetensors"}})")};
}

void run_index(const std::string& bytes) {
  fuzz::past_checksum(
      bytes,
      [](const std::string& all) {
        auto parts = fuzz::split(all, 3);
        return fuzz::join({parts[0], parts[1], fuzz::repair_safetensors(parts[2])});
      },
      [](const std::string& all) {
        const auto parts = fuzz::split(all, 3);
        fuzz::remove("model.safetensors");
        fuzz::write(parts[0], "config.json");
        fuzz::write(parts[1], "model.safetensors.index.json");
        fuzz::write(parts[2], "a.safetensors");
        load<GPT, Bert, BertClassifier, ViT>(model_kind(folder()));
      });
  fuzz::remove("model.safetensors.index.json");
}

// Seeds: images.json, or Hugging Face's preprocessor_config.json and config.json.
std::vector<std::string> info_seeds() {
  const ImageInfo info{{{0.5, 0.25, 0.1}, {0.1, 0.2, 1e-30}}, {"cat", "d\xc3\xb6g"}};
  save_image_info(folder(), info);
  ViTConfig config = vit;
  config.channels = 3;
  config.classes = 2;
  save_hugging_face(folder(), ViT(config), {.images = &info});
  return {read_file(fuzz::path_of("images.json")),
          fuzz::join({read_file(fuzz::path_of("preprocessor_config.json")),
                      read_file(config_path(folder()))})};
}

/// Checks that saving and loading again gives the same image information.
void run_info(const std::string& bytes) {
  fuzz::remove("config.json");
  const auto parts = fuzz::split(bytes, 2);
  fuzz::write(parts[0], "images.json");
  fuzz::write(parts[0], "preprocessor_config.json");
  if (!parts[1].empty()) fuzz::write(parts[1], "config.json");
  const ImageInfo info = load_image_info(folder());
  fuzz::remove("config.json");
  save_image_info(folder(), info);
  const ImageInfo again = load_image_info(folder());
  fuzz::expect(again.stats.mean == info.stats.mean && again.stats.std == info.stats.std &&
                   again.class_names == info.class_names,
               "saved and loaded, other entries");
}

// Seeds: text.json, or Hugging Face's config.json and tokenizer_config.json.
std::vector<std::string> text_seeds() {
  const TextInfo info{.class_names = {"cat", "d\xc3\xb6g"},
                      .token_ids = {{"bos_token_id", {1}}, {"eos_token_id", {0, 1}}},
                      .token_names = {{"bos_token", "a"}, {"pad_token", "\xc3\xb6"}},
                      .chat_template = "{{ '<|im_start|>' }}"};
  save_text_info(folder(), info);
  save_hugging_face(folder(), BertClassifier({.bert = bert, .classes = 2}), {.text = &info});
  return {read_file(text_info_path(folder())),
          fuzz::join({read_file(config_path(folder())),
                      R"({"bos_token":{"content":"a"},"unk_token":"b","chat_template":"c"})"})};
}

/// Checks that saving and loading again gives the same.
void run_text(const std::string& bytes) {
  const auto parts = fuzz::split(bytes, 2);
  fuzz::write(parts[1].empty() ? R"({"model":"gpt"})" : parts[0], "config.json");
  fuzz::write(parts[0], "text.json");
  fuzz::write(parts[1], "tokenizer_config.json");
  const TextInfo info = load_text_info(folder());
  fuzz::write(R"({"model":"gpt"})", "config.json");
  fuzz::remove("text.json");
  save_text_info(folder(), info);
  fuzz::expect(load_text_info(folder()) == info, "saved and loaded, other entries");
}

const fuzz::Register models_target{{"model", seeds, run, 2000}};
const fuzz::Register index_target{{"index", index_seeds, run_index, 2000}};
const fuzz::Register info_target{{"images_json", info_seeds, run_info}};
const fuzz::Register text_target{{"text_json", text_seeds, run_text}};

}  // namespace

}  // namespace model_folder_fuzz
