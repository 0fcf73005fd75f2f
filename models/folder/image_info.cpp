#include "gradus/models/folder/image_info.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json;

namespace {

constexpr const char *our_file = "images.json", *hf_file = "preprocessor_config.json";

const json& array_in(const std::string& path, const json& file, const char* key) {
  const auto found = file.find(key);
  if (found == file.end()) fail(path, ": ", key, " is missing: expected an array");
  if (!found->is_array()) fail(path, ": ", key, ": expected an array, got ", shown(*found));
  return *found;
}

std::vector<double> numbers_in(const std::string& path, const json& file, const char* key) {
  std::vector<double> numbers;
  for (const json& value : array_in(path, file, key)) {
    if (!value.is_number()) fail(path, ": ", key, ": expected numbers, got ", shown(value));
    numbers.push_back(value);
  }
  return numbers;
}

/// Throws Error unless there are as many deviations as means, at least one, all means are finite
/// and all deviations finite and above 0. The message begins with `what`.
void check_channels(const std::string& what, const ChannelStats& stats) {
  const size_t means = stats.mean.size(), deviations = stats.std.size();
  check(means == deviations && means > 0, what,
        ": expected a mean and a std for each channel, got ", means, " and ", deviations);
  for (size_t c = 0; c < means; ++c)
    check(std::isfinite(stats.mean[c]) && std::isfinite(stats.std[c]) && stats.std[c] > 0, what,
          ": expected finite means and stds above 0, got ", stats.mean[c], " and ", stats.std[c]);
}

/// Throws Error unless images are scaled from bytes to 0 to 1.
void check_rescaling(const std::string& path, const json& file) {
  check(file.value("do_rescale", json()) != false, path, ": do_rescale: expected true, got false");
  if (const auto factor = file.find("rescale_factor"); factor != file.end())
    if (!factor->is_number() || std::abs(factor->get<double>() * 255 - 1) > 1e-6)
      fail(path, ": rescale_factor: expected 1/255, got ", shown(*factor));
}

/// Reads preprocessor_config.json, and the class names from config.json.
ImageInfo load_hugging_face_info(const std::string& dir, const HuggingFaceConfig& config) {
  const std::string path = in_folder(dir, hf_file);
  const json file = read_json_object(path);
  check_rescaling(path, file);
  ImageInfo info;
  if (file.value("do_normalize", json()) != false) {
    info.stats = {numbers_in(path, file, "image_mean"), numbers_in(path, file, "image_std")};
  } else {
    const size_t channels = count_in(config, "num_channels", 3);
    info.stats = {std::vector<double>(channels, 0), std::vector<double>(channels, 1)};
  }
  check_channels(path, info.stats);
  info.class_names = class_names_in(config);
  return info;
}

}  // namespace

std::string image_info_path(const std::string& dir) {
  return in_folder(dir, find_hugging_face_config(dir) ? hf_file : our_file);
}

std::string class_names_path(const std::string& dir) {
  return find_hugging_face_config(dir) ? config_path(dir) : in_folder(dir, our_file);
}

void save_image_info(const std::string& dir, const ImageInfo& info) {
  check_channels("save_image_info", info.stats);
  const nlohmann::ordered_json file = {
      {"mean", info.stats.mean}, {"std", info.stats.std}, {"classes", info.class_names}};
  write_json(in_folder(dir, our_file), file);
}

ImageInfo load_image_info(const std::string& dir) {
  if (const auto hf_config = find_hugging_face_config(dir))
    return load_hugging_face_info(dir, *hf_config);
  const std::string path = in_folder(dir, our_file);
  const json file = read_json_object(path);
  for (const auto& [name, value] : file.items())
    if (name != "mean" && name != "std" && name != "classes")
      fail(path, ": ", shown(json(name)), " is not a known entry");
  ImageInfo info{{numbers_in(path, file, "mean"), numbers_in(path, file, "std")}};
  check_channels(path, info.stats);
  for (const json& name : array_in(path, file, "classes")) {
    if (!name.is_string()) fail(path, ": classes: expected names, got ", shown(name));
    info.class_names.push_back(name);
  }
  return info;
}

}  // namespace gradus::models
