#include "gradus/models/folder/text_info.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/config.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json, nlohmann::ordered_json;

namespace {

constexpr const char *classes_key = "classes", *template_key = "chat_template";
constexpr std::array id_keys{"bos_token_id", "eos_token_id", "pad_token_id"};
constexpr std::array name_keys{"bos_token", "eos_token", "unk_token", "pad_token"};

/// file[key]; null if it is missing.
json entry(const json& file, const char* key) { return file.value(key, json()); }

std::string text_in(const std::string& path, const std::string& key, const json& value) {
  if (!value.is_string()) fail(path, ": ", key, ": expected a string, got ", shown(value));
  return value;
}

/// The tokens in file[key]: one, or several in an array.
void read_ids(const std::string& path, const json& file, TextInfo& info) {
  for (const char* key : id_keys) {
    const json value = entry(file, key);
    if (value.is_null()) continue;
    std::vector<int64_t>& ids = info.token_ids[key];
    for (const json& id : value.is_array() ? value : json::array({value})) {
      // nlohmann::json would convert an unsigned number of 2^63 or more to a negative one.
      if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX))
        fail(path, ": ", key, ": expected a token's id or an array of them, got ", shown(value));
      ids.push_back(id);
    }
  }
}

/// The names of tokens, each a string or an object with a "content", and the chat template.
void read_names(const std::string& path, const json& file, TextInfo& info) {
  for (const char* key : name_keys) {
    const json value = entry(file, key);
    if (value.is_null()) continue;
    info.token_names[key] = text_in(path, key, value.is_object() ? entry(value, "content") : value);
  }
  info.chat_template = chat_template_in(path).value_or("");
}

TextInfo load_hugging_face_text(const std::string& dir, const HuggingFaceConfig& config) {
  TextInfo info;
  if (kind_in(config) == "bert-classifier") {
    info.class_names = class_names_in(config);
    size_t i = 0;
    if (std::all_of(info.class_names.begin(), info.class_names.end(),
                    [&](const std::string& name) { return name == default_class_name(i++); }))
      info.class_names.clear();
  }
  read_ids(config.path, config.values, info);
  const std::string path = in_folder(dir, "tokenizer_config.json"),
                    form = in_folder(dir, "chat_template.jinja");
  if (file_exists(path)) read_names(path, read_json_object(path), info);
  if (file_exists(form)) info.chat_template = read_file(form);
  return info;
}

}  // namespace

std::string text_info_path(const std::string& dir) { return in_folder(dir, "text.json"); }

void save_text_info(const std::string& dir, const TextInfo& info) {
  if (info == TextInfo() && !file_exists(text_info_path(dir))) return;
  ordered_json file = ordered_json::object();
  if (!info.class_names.empty()) file[classes_key] = info.class_names;
  for (const auto& [key, ids] : info.token_ids) file[key] = ids;
  for (const auto& [key, name] : info.token_names) file[key] = name;
  if (!info.chat_template.empty()) file[template_key] = info.chat_template;
  write_json(text_info_path(dir), file);
}

TextInfo load_text_info(const std::string& dir) {
  if (const auto config = find_hugging_face_config(dir))
    return load_hugging_face_text(dir, *config);
  const std::string path = text_info_path(dir);
  TextInfo info;
  if (!file_exists(path)) return info;
  const json file = read_json_object(path);
  const auto is_in = [](const auto& keys, const std::string& name) {
    return std::find(keys.begin(), keys.end(), name) != keys.end();
  };
  for (const auto& [name, value] : file.items())
    if (name != classes_key && name != template_key && !is_in(id_keys, name) &&
        !is_in(name_keys, name))
      fail(path, ": ", shown(json(name)), " is not a known entry");
  const json classes = entry(file, classes_key);
  if (!classes.is_null() && !classes.is_array())
    fail(path, ": ", classes_key, ": expected an array, got ", shown(classes));
  for (const json& name : classes) info.class_names.push_back(text_in(path, classes_key, name));
  read_ids(path, file, info);
  read_names(path, file, info);
  return info;
}

}  // namespace gradus::models
