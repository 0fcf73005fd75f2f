// Converts a model folder to Hugging Face's format or to gradus's: weights, configuration, and
// tokenizer or image statistics. Converts a GPT also to a GGUF file, which llama.cpp reads, and
// back. Exports a model's forward pass as an ONNX file.
//
//   build/bin/convert --model DIR --to DIR --format hugging-face|gradus
//   build/bin/convert --model DIR --to FILE --format gguf --type f32|f16|bf16|q8_0
//   build/bin/convert --model FILE --to DIR --format gradus
//   build/bin/convert --model DIR --to DIR --format gradus --weights int8
//   build/bin/convert --model DIR --to FILE.onnx --format onnx

#include <gradus/gradus.h>

#include <cstdio>
#include <filesystem>

#include "examples/onnx/models.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"
#include "examples/support/text.h"
#include "examples/support/weights.h"

using namespace gradus;

namespace {

enum class Format { hugging_face, gradus, gguf, onnx };

struct Options {
  std::string model = "out/train", to;
  Format format = Format::hugging_face;
  Weights weights = Weights::as_stored;
  models::GgufType type = models::GgufType::f32;
};

bool has_any(const std::filesystem::path& dir, std::initializer_list<const char*> files) {
  return std::ranges::any_of(files, [&](const char* file) { return exists(dir / file); });
}

template <class Model>
void write(const Options& o, const Model& model, const models::HuggingFaceParts& parts) {
  if (o.format == Format::gguf) make_folder_of(o.to);
  if (o.format == Format::hugging_face) return models::save_hugging_face(o.to, model, parts);
  if constexpr (std::is_same_v<Model, models::GPT>)
    if (o.format == Format::gguf)
      return models::save_gguf(o.to, model, parts.tokenizer, o.type, parts.text);
  models::save_model(o.to, model, parts.tokenizer);
  if (parts.images) models::save_image_info(o.to, *parts.images);
  if (parts.text) models::save_text_info(o.to, *parts.text);
}

void convert_gguf(const Options& o) {
  models::GgufModel read = models::load_gguf(o.model);
  store_weights(read.model, o.weights);
  write(o, read.model, {.tokenizer = read.tokenizer.get(), .text = &read.text});
}

template <class Model>
void convert(const Options& o) {
  auto model = models::load_model<Model>(o.model);
  store_weights(model, o.weights);
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::optional<models::ImageInfo> images;
  if constexpr (std::is_same_v<Model, models::ViT>)
    images = models::load_image_info(o.model);
  else if (has_any(o.model, {"tokenizer.json", "vocab.json", "vocab.txt", "merges.txt",
                             "tokenizer.model", "spiece.model", "tokenizer_config.json"}))
    tokenizer = models::load_tokenizer(o.model);
  const auto text = images ? models::TextInfo() : models::load_text_info(o.model);
  write(o, model, {tokenizer.get(), images ? &*images : nullptr, &text});
}

/// Throws Error if the target exists, or if the folder holds files that would be read with it.
void check_target(const Options& o, const Flags& flags) {
  const bool to_file = o.format == Format::gguf || o.format == Format::onnx;
  core::check(o.format == Format::gguf || !flags.given("--type"), "--type needs --format gguf");
  const bool has_model =
      has_any(o.to, {"config.json", "text.json", "tokenizer.json", "vocab.json", "vocab.txt",
                     "tokenizer_config.json", "added_tokens.json", "chat_template.jinja"});
  core::check(to_file ? !std::filesystem::exists(o.to) : !has_model, "--to: ", o.to,
              to_file ? " already exists" : " already holds a model's files");
}

/// Writes the forward pass of a model of the given kind as an ONNX file.
template <class Model>
void export_onnx(const Options& o) {
  auto model = models::load_model<Model>(o.model);
  model.to(float32);
  std::string bytes;
  if constexpr (requires { to_onnx(model, models::ChannelStats()); }) {
    const bool normalised = std::filesystem::exists(models::image_info_path(o.model));
    bytes = to_onnx(model,
                    normalised ? models::load_image_info(o.model).stats : models::ChannelStats());
  } else {
    bytes = to_onnx(model);
  }
  make_folder_of(o.to);
  write_file_atomically(o.to, bytes);
}

/// Calls f with the type of the model of this kind. Throws Error if it is not among `Models`.
template <class... Models, class F>
void with_kind(const Options& o, const F& f) {
  const std::string kind = models::model_kind(o.model);
  std::string known;
  const auto found = [&]<class Model>(std::type_identity<Model> type) {
    known += std::string(known.empty() ? "" : ", ") + Model::kind;
    if (kind == Model::kind) f(type);
    return kind == Model::kind;
  };
  if (!(found(std::type_identity<Models>()) || ...))
    core::fail(models::config_path(o.model), ": expected one of ", known, ", got ", shown(kind));
}

int run(int argc, char** argv) {
  Options o;
  Flags flags(
      "Converts a GPT, BERT or ViT to the format of Hugging Face's transformers, or back to\n"
      "gradus's; a GPT also to a GGUF file, which llama.cpp reads, and back.\n"
      "  convert --model DIR --to DIR --format hugging-face|gradus\n"
      "  convert --model DIR --to FILE --format gguf\n"
      "Exports one of these, a CNN, CLIP, a captioner's encoder or a digit classifier to ONNX.\n"
      "  convert --model DIR --to FILE.onnx --format onnx");
  flags.group("Flags");
  flags.add("--model", o.model, "PATH", "model folder or GGUF file to read");
  flags.add("--to", o.to, "PATH", "model folder, GGUF or ONNX file to write");
  flags.add("--format", o.format, {"hugging-face", "gradus", "gguf", "onnx"}, "format to write");
  flags.add("--type", o.type, {"f32", "f16", "bf16", "q8_0"}, "type of a GGUF file's matrices");
  add_weights(flags, o.weights);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!o.to.empty(), "--to: expected a folder, or a file with --format gguf or onnx");
  core::check(o.format == Format::gradus || o.weights == Weights::as_stored ||
                  o.weights == Weights::float32,
              "--weights: bfloat16 and int8 need --format gradus");
  check_target(o, flags);
  if (models::is_gguf(o.model)) {
    core::check(o.format != Format::onnx, "--format onnx: expected a model folder, got ", o.model);
    convert_gguf(o);
    std::printf("wrote %s\n", o.to.c_str());
    return 0;
  }
  const std::string kind = models::model_kind(o.model);
  using namespace models;
  core::check(o.format != Format::gguf || kind == GPT::kind, "--format gguf: expected a gpt, got ",
              shown(kind));
  if (o.format == Format::onnx)
    with_kind<GPT, Bert, BertClassifier, ViT, CNNAttention, CLIP, Captioner, DigitNet>(
        o, [&]<class Model>(std::type_identity<Model>) { export_onnx<Model>(o); });
  else
    with_kind<GPT, Bert, BertClassifier, ViT>(
        o, [&]<class Model>(std::type_identity<Model>) { convert<Model>(o); });
  std::printf("wrote %s\n", o.to.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("convert", argc, argv, run); }
