// Converts a model folder to Hugging Face's format or to gradus's: weights, configuration, and
// tokenizer or image statistics.
//
//   build/bin/convert --model DIR --to DIR --format hugging-face|gradus
//   build/bin/convert --model DIR --to DIR --format gradus --weights int8

#include <gradus/gradus.h>

#include <cstdio>
#include <filesystem>

#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/text.h"
#include "examples/support/weights.h"

using namespace gradus;

namespace {

enum class Format { hugging_face, gradus };

struct Options {
  std::string model = "out/train", to;
  Format format = Format::hugging_face;
  Weights weights = Weights::as_stored;
};

bool has_tokenizer(const std::string& dir) {
  for (const char* file : {"tokenizer.json", "vocab.json", "vocab.txt"})
    if (std::filesystem::exists(std::filesystem::path(dir) / file)) return true;
  return false;
}

template <class Model>
void convert(const Options& o) {
  auto model = models::load_model<Model>(o.model);
  store_weights(model, o.weights);
  std::unique_ptr<models::Tokenizer> tokenizer;
  std::optional<models::ImageInfo> images;
  if constexpr (std::is_same_v<Model, models::ViT>)
    images = models::load_image_info(o.model);
  else if (has_tokenizer(o.model))
    tokenizer = models::load_tokenizer(o.model);
  for (const std::string& line : models::not_kept(o.model, tokenizer.get()))
    std::printf("not kept: %s\n", line.c_str());
  if (o.format == Format::hugging_face)
    return models::save_hugging_face(o.to, model, {tokenizer.get(), images ? &*images : nullptr});
  models::save_model(o.to, model, tokenizer.get());
  if (images) models::save_image_info(o.to, *images);
}

int run(int argc, char** argv) {
  Options o;
  Flags flags(
      "Converts a GPT, BERT or ViT to the format of Hugging Face's transformers, or back to "
      "gradus's.\n"
      "  convert --model DIR --to DIR --format hugging-face|gradus");
  flags.group("Flags");
  flags.add("--model", o.model, "DIR", "model folder to read");
  flags.add("--to", o.to, "DIR", "model folder to write");
  models::Fields format;
  format.add("format", o.format, {"hugging-face", "gradus"}, "format to write");
  flags.add(format);
  add_weights(flags, o.weights);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!o.to.empty(), "--to: expected a folder");
  core::check(o.format == Format::gradus || o.weights == Weights::as_stored ||
                  o.weights == Weights::float32,
              "--weights: bfloat16 and int8 need --format gradus");
  core::check(!std::filesystem::exists(models::config_path(o.to)), "--to: ", o.to,
              " already holds a model");
  const std::string kind = models::model_kind(o.model);
  if (kind == models::GPT::kind)
    convert<models::GPT>(o);
  else if (kind == models::Bert::kind)
    convert<models::Bert>(o);
  else if (kind == models::BertClassifier::kind)
    convert<models::BertClassifier>(o);
  else if (kind == models::ViT::kind)
    convert<models::ViT>(o);
  else
    core::fail(models::config_path(o.model), ": expected a gpt, bert, bert-classifier or vit, got ",
               shown(kind));
  std::printf("wrote %s\n", o.to.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("convert", argc, argv, run); }
