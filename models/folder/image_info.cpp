#include "gradus/models/folder/image_info.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/hugging_face_parts.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus::models {

namespace {

using nlohmann::json;

/// The array under a name.
const json& array_in(const std::string& path, const json& file, const char* name) {
  const auto found = file.find(name);
  if (found == file.end()) fail(path, ": ", name, " is missing: expected an array");
  if (!found->is_array()) fail(path, ": ", name, ": expected an array, got ", shown(*found));
  return *found;
}

/// The numbers under a name, all above `least`.
std::vector<double> numbers_in(const std::string& path, const json& file, const char* name,
                               double least) {
  std::vector<double> numbers;
  for (const json& value : array_in(path, file, name)) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= least)
      fail(path, ": ", name, ": expected finite numbers",
           std::isfinite(least) ? " above " + std::to_string(static_cast<int>(least)) : "",
           ", got ", shown(value));
    numbers.push_back(value);
  }
  return numbers;
}

/// Throws Error unless there are as many deviations as means, and some.
void check_channels(const std::string& path, const ChannelStats& stats) {
  const size_t means = stats.mean.size(), deviations = stats.std.size();
  check(means == deviations && means > 0, path,
        ": expected a mean and a std for each channel, got ", means, " and ", deviations);
}

std::string in_folder(const std::string& dir, const char* file) {
  return (std::filesystem::path(dir) / file).string();
}

}  // namespace

std::string image_info_path(const std::string& dir) {
  const std::string ours = in_folder(dir, "images.json"),
                    theirs = in_folder(dir, "preprocessor_config.json");
  std::error_code error;
  return !std::filesystem::exists(ours, error) && std::filesystem::exists(theirs, error) ? theirs
                                                                                         : ours;
}

std::string class_names_path(const std::string& dir) {
  const std::string path = image_info_path(dir);
  return path.ends_with("preprocessor_config.json") ? config_path(dir) : path;
}

void save_image_info(const std::string& dir, const ImageInfo& info) {
  nlohmann::ordered_json file;
  file["mean"] = info.stats.mean;
  file["std"] = info.stats.std;
  file["classes"] = info.class_names;
  write_file_atomically(in_folder(dir, "images.json"),
                        file.dump(2, ' ', false, json::error_handler_t::replace) + '\n');
}

namespace {

/// preprocessor_config.json and the names in config.json, of a folder of Hugging Face's.
ImageInfo load_theirs(const std::string& dir, const json& config) {
  const std::string path = in_folder(dir, "preprocessor_config.json");
  const json file = parse_json(path.c_str(), read_file(path));
  if (!file.is_object()) fail(path, ": expected a JSON object, got ", shown(file));
  auto is_off = [&](const char* key) { return file.contains(key) && file[key] == false; };
  check(!is_off("do_rescale"), path, ": do_rescale: expected true, got false");
  if (const auto factor = file.find("rescale_factor"); factor != file.end())
    if (!factor->is_number() || std::abs(factor->get<double>() * 255 - 1) > 1e-6)
      fail(path, ": rescale_factor: expected 1/255, got ", shown(*factor));
  ImageInfo info;
  const auto channels = config.find("num_channels");
  if (is_off("do_normalize"))
    info.stats = {{0, 0, 0}, {1, 1, 1}};
  else
    info.stats = {numbers_in(path, file, "image_mean", -INFINITY),
                  numbers_in(path, file, "image_std", 0)};
  if (is_off("do_normalize") && channels != config.end() && *channels == 1) info.stats = {{0}, {1}};
  check_channels(path, info.stats);
  info.class_names = internal::their_labels(config_path(dir), config);
  return info;
}

}  // namespace

ImageInfo load_image_info(const std::string& dir) {
  if (const std::string config = config_path(dir); std::filesystem::exists(config))
    if (const json theirs = parse_json(config.c_str(), read_file(config));
        internal::is_theirs(theirs))
      return load_theirs(dir, theirs);
  const std::string path = in_folder(dir, "images.json");
  const json file = parse_json(path.c_str(), read_file(path));
  if (!file.is_object()) fail(path, ": expected a JSON object, got ", shown(file));
  for (const auto& [name, value] : file.items())
    if (name != "mean" && name != "std" && name != "classes")
      fail(path, ": ", shown(json(name)), " is no entry of it");
  ImageInfo info{{numbers_in(path, file, "mean", -INFINITY), numbers_in(path, file, "std", 0)}};
  check_channels(path, info.stats);
  for (const json& name : array_in(path, file, "classes")) {
    if (!name.is_string()) fail(path, ": classes: expected names, got ", shown(name));
    info.class_names.push_back(name);
  }
  return info;
}

}  // namespace gradus::models
