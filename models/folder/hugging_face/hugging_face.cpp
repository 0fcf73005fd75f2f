#include "gradus/models/folder/hugging_face/hugging_face.h"

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/hugging_face/weights.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models {

using namespace internal;
using Json = nlohmann::ordered_json;

bool is_hugging_face(const std::string& dir) {
  return is_hugging_face_config(read_json(config_path(dir)));
}

namespace {

constexpr const char* end_of_text = "<|endoftext|>";

/// The entries that both kinds of tokenizer_config.json share.
Json tokenizer_config(const char* type, const Json& context) {
  return {{"tokenizer_class", type}, {"model_max_length", context}};
}

Json save_bpe(const std::string& dir, const BPETokenizer& tokenizer, const Json& context) {
  tokenizer.save_gpt2(in_folder(dir, "vocab.json"), in_folder(dir, "merges.txt"));
  Json config = tokenizer_config("GPT2Tokenizer", context);
  config["add_prefix_space"] = false;
  // Without these keys transformers takes <|endoftext|>, and adds it to a vocabulary without it.
  const bool has_end = tokenizer.has_special(end_of_text);
  for (const char* key : {"bos_token", "eos_token", "unk_token"})
    config[key] = has_end ? Json(end_of_text) : Json();
  config["additional_special_tokens"] = tokenizer.special_tokens();
  return config;
}

Json save_wordpiece(const std::string& dir, const WordPieceTokenizer& tokenizer,
                    const Json& context) {
  tokenizer.save_vocab(in_folder(dir, "vocab.txt"));
  Json config = tokenizer_config("BertTokenizer", context);
  config["do_lower_case"] = tokenizer.options().lower_case;
  config["strip_accents"] = tokenizer.options().strip_accents;
  config["tokenize_chinese_chars"] = tokenizer.options().split_cjk;
  for (const auto& [role, name] : bert_roles)
    if (tokenizer.has_special(name)) config[role] = name;
  config["additional_special_tokens"] = tokenizer.special_tokens();
  return config;
}

Json save_form(const std::string& dir, const HuggingFaceBPE& tokenizer, const Json& context) {
  tokenizer.save(tokenizer_path(dir));
  Json config = tokenizer_config("PreTrainedTokenizerFast", context);
  config["clean_up_tokenization_spaces"] = false;
  for (const int64_t id : tokenizer.begin_ids()) config["bos_token"] = tokenizer.decode({id});
  return config;
}

/// Writes the tokenizer, with the names of tokens and the template in `text` if it is not null.
void save_tokenizer(const std::string& dir, const Tokenizer& tokenizer, const TextInfo* text,
                    const Json& context) {
  Json config;
  if (const auto* bpe = dynamic_cast<const BPETokenizer*>(&tokenizer))
    config = save_bpe(dir, *bpe, context);
  else if (const auto* pieces = dynamic_cast<const WordPieceTokenizer*>(&tokenizer))
    config = save_wordpiece(dir, *pieces, context);
  else if (const auto* form = dynamic_cast<const HuggingFaceBPE*>(&tokenizer))
    config = save_form(dir, *form, context);
  else
    return tokenizer.save(tokenizer_path(dir));
  if (text) {
    for (const auto& [key, name] : text->token_names) config[key] = name;
    if (text->has_jinja()) config["chat_template"] = text->chat_template;
  }
  write_json(in_folder(dir, "tokenizer_config.json"), config);
}

/// Throws Error if the folder holds a file that would be read instead of one that will be written.
void check_not_hidden(const std::string& dir, const Tokenizer* tokenizer, const TextInfo* text) {
  auto refuse = [&](const char* other, const char* own) {
    check(!file_exists(in_folder(dir, other)), "save_hugging_face: ", in_folder(dir, other),
          " exists and would be read instead of ", own);
  };
  if (dynamic_cast<const BPETokenizer*>(tokenizer)) refuse("tokenizer.json", "vocab.json");
  if (dynamic_cast<const WordPieceTokenizer*>(tokenizer)) {
    refuse("tokenizer.json", "vocab.txt");
    if (file_exists(in_folder(dir, "merges.txt"))) refuse("vocab.json", "vocab.txt");
  }
  const std::string jinja = in_folder(dir, "chat_template.jinja");
  const bool writes_jinja = tokenizer && text && text->has_jinja();
  if (writes_jinja && file_exists(jinja) && read_file(jinja) != text->chat_template)
    refuse("chat_template.jinja", "the chat template in tokenizer_config.json");
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

/// Adds the ids of the tokens that begin, end and pad texts: those in `text`, otherwise the
/// tokenizer's.
void add_token_ids(Json& config, const std::string& kind, const Tokenizer* tokenizer,
                   const TextInfo* text) {
  auto id_of = [&](const char* name) {
    const bool is_there = tokenizer && tokenizer->has_special(name);
    return is_there ? Json(tokenizer->special(name)) : Json();
  };
  if (kind == "gpt") config["bos_token_id"] = config["eos_token_id"] = id_of(end_of_text);
  for (const int64_t id : tokenizer ? tokenizer->begin_ids() : std::vector<int64_t>())
    config["bos_token_id"] = id;
  if (const Json pad = id_of("[PAD]"); !pad.is_null()) config["pad_token_id"] = pad;
  if (!text) return;
  for (const auto& [key, ids] : text->token_ids)
    config[key] = ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

}  // namespace

void save_hugging_face_files(const std::string& dir, const std::string& kind, const Fields& fields,
                             const nn::Module& model, const HuggingFaceParts& parts) {
  Json config = make_hugging_face_config(kind, fields,
                                         parts.images ? parts.images->class_names
                                         : parts.text ? parts.text->class_names
                                                      : std::vector<std::string>{});
  check(nn::lora_updates(model).empty(), "save_hugging_face: the model has low-rank updates: call ",
        "merge_lora first, or save_adapter instead");
  const NamedTensors tensors = hugging_face_tensors(kind, fields, model);
  check(!parts.images || kind == "vit", "save_hugging_face: a ", kind, " takes no images");
  config["torch_dtype"] = name_of(tensors.front().second.dtype());
  add_token_ids(config, kind, parts.tokenizer, parts.text);
  check_not_hidden(dir, parts.tokenizer, parts.text);

  create_folder("save_hugging_face", dir);
  save_safetensors(weights_path(dir), tensors, {{"format", "pt"}});
  const Field* context = fields.find("context");
  if (parts.tokenizer)
    save_tokenizer(dir, *parts.tokenizer, parts.text,
                   context ? Json::parse(context->to_text()) : Json());
  if (parts.images) save_images(dir, *parts.images, config["image_size"]);
  write_json(config_path(dir), config);
}

}  // namespace gradus::models
