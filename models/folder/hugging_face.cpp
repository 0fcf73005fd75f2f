#include "gradus/models/folder/hugging_face.h"

#include <filesystem>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
#include "gradus/models/folder/hugging_face_parts.h"

namespace gradus::models {

using Json = nlohmann::ordered_json;

namespace {

std::string in_folder(const std::string& dir, const char* file) {
  return (std::filesystem::path(dir) / file).string();
}

void write_json(const std::string& path, const Json& json) {
  write_file_atomically(path,
                        json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

/// What both of their tokenizers' configurations have.
Json tokenizer_config(const char* type, const Json& context) {
  return {{"tokenizer_class", type}, {"model_max_length", context}};
}

void save_tokenizer(const std::string& dir, const BPETokenizer& tokenizer, Json config) {
  tokenizer.save_gpt2(in_folder(dir, "vocab.json"), in_folder(dir, "merges.txt"));
  config["add_prefix_space"] = false;
  // transformers takes <|endoftext|> for these where it is not told, and adds it where it is new.
  const bool has_end = tokenizer.has_special("<|endoftext|>");
  for (const char* key : {"bos_token", "eos_token", "unk_token"})
    config[key] = has_end ? Json("<|endoftext|>") : Json();
  config["additional_special_tokens"] = tokenizer.special_tokens();
  write_json(in_folder(dir, "tokenizer_config.json"), config);
}

void save_tokenizer(const std::string& dir, const WordPieceTokenizer& tokenizer, Json config) {
  tokenizer.save_vocab(in_folder(dir, "vocab.txt"));
  config["do_lower_case"] = tokenizer.options().lower_case;
  config["strip_accents"] = tokenizer.options().strip_accents;
  config["tokenize_chinese_chars"] = tokenizer.options().split_cjk;
  for (const auto& [role, name] : internal::bert_roles)
    if (tokenizer.has_special(name)) config[role] = name;
  write_json(in_folder(dir, "tokenizer_config.json"), config);
}

void save_images(const std::string& dir, const ImageInfo& images, const Json& size) {
  write_json(in_folder(dir, "preprocessor_config.json"),
             {{"image_processor_type", "ViTImageProcessor"},
              {"do_resize", true},
              {"size", {{"height", size}, {"width", size}}},
              {"resample", 2},  // bilinear
              {"do_rescale", true},
              {"rescale_factor", 1.0 / 255},
              {"do_normalize", true},
              {"image_mean", images.stats.mean},
              {"image_std", images.stats.std}});
}

}  // namespace

bool is_hugging_face(const std::string& dir) {
  const std::string path = config_path(dir);
  return internal::is_theirs(parse_json(path.c_str(), read_file(path)));
}

std::vector<std::string> not_kept(const std::string& dir, const Tokenizer* tokenizer) {
  const std::string path = config_path(dir), beside = in_folder(dir, "tokenizer_config.json");
  const nlohmann::json config = parse_json(path.c_str(), read_file(path));
  std::vector<std::string> lines;
  if (!internal::is_theirs(config)) return lines;
  const std::string kind = internal::kind_of_theirs(path, config);
  if (kind == "bert-classifier") {
    const std::vector<std::string> names = internal::their_labels(path, config);
    for (size_t i = 0; i < names.size() && lines.empty(); ++i)
      if (names[i] != "LABEL_" + std::to_string(i))
        lines.push_back(path + ": id2label: " + shown(names));
  }
  if (kind != "gpt") return lines;
  const char* end = "<|endoftext|>";
  const bool has_end = tokenizer && tokenizer->has_special(end);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto id = config.find(key);
    const bool is_end =
        has_end && *key != 'p' && id != config.end() && *id == tokenizer->special(end);
    if (id != config.end() && !id->is_null() && !is_end)
      lines.push_back(path + ": " + key + ": " + shown(*id));
  }
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return lines;
  const nlohmann::json settings = parse_json(beside.c_str(), read_file(beside));
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    nlohmann::json name = settings.is_object() ? settings.value(key, nlohmann::json()) : settings;
    if (name.is_object()) name = name.value("content", nlohmann::json());
    if (!name.is_null() && (*key == 'p' || name != end))
      lines.push_back(beside + ": " + key + ": " + shown(name));
  }
  return lines;
}

void save_hugging_face_files(const std::string& dir, const std::string& kind, const Fields& ours,
                             const nn::Module& model, const HuggingFaceParts& parts) {
  const std::vector<std::string> labels =
      parts.images ? parts.images->class_names : std::vector<std::string>{};
  Json config = internal::their_config(kind, ours, labels);
  const NamedTensors tensors = internal::their_weights(kind, ours, model);
  check(!parts.images || kind == "vit", "save_hugging_face: a ", kind, " takes no images");
  config["torch_dtype"] = name_of(tensors.front().second.dtype());
  auto id_of = [&](const char* name) {
    const bool is_there = parts.tokenizer && parts.tokenizer->has_special(name);
    return is_there ? Json(parts.tokenizer->special(name)) : Json();
  };
  if (kind == "gpt") config["bos_token_id"] = config["eos_token_id"] = id_of("<|endoftext|>");
  if (const Json pad = id_of("[PAD]"); !pad.is_null()) config["pad_token_id"] = pad;

  const auto* bpe = dynamic_cast<const BPETokenizer*>(parts.tokenizer);
  const auto* pieces = dynamic_cast<const WordPieceTokenizer*>(parts.tokenizer);
  std::error_code error;
  check((!bpe && !pieces) || !std::filesystem::exists(tokenizer_path(dir), error),
        "save_hugging_face: ", tokenizer_path(dir), " is there, and would be read in place of ",
        bpe ? "vocab.json" : "vocab.txt");
  std::filesystem::create_directories(dir, error);
  check(std::filesystem::is_directory(dir, error), "save_hugging_face: cannot make the folder ",
        dir);
  save_safetensors(weights_path(dir), tensors, {{"format", "pt"}});
  const Field* length = ours.find("context");
  const Json context = length ? Json::parse(length->to_text()) : Json();
  if (bpe)
    save_tokenizer(dir, *bpe, tokenizer_config("GPT2Tokenizer", context));
  else if (pieces)
    save_tokenizer(dir, *pieces, tokenizer_config("BertTokenizer", context));
  else if (parts.tokenizer)
    parts.tokenizer->save(tokenizer_path(dir));
  if (parts.images) save_images(dir, *parts.images, config["image_size"]);
  write_json(config_path(dir), config);
}

}  // namespace gradus::models
