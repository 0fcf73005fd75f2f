#pragma once
// What the folder of a model of images holds beside its weights and its configuration: images.json.

#include <string>
#include <vector>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// How pictures become what a model takes, and what it tells apart.
struct ImageInfo {
  ChannelStats stats;                         ///< one mean and one deviation a channel
  std::vector<std::string> class_names = {};  ///< none: it tells no classes apart
};

/// DIR/images.json, or preprocessor_config.json where Hugging Face's folder has that instead.
std::string image_info_path(const std::string& dir);
/// The file that names the classes: images.json, or config.json of Hugging Face's folder.
std::string class_names_path(const std::string& dir);
/// Writes it into a model's folder, which exists: after save_model. Throws Error if it can't.
void save_image_info(const std::string& dir, const ImageInfo& info);
/// Reads it. Throws Error, naming the file, if it is missing or damaged: numbers that are not finite,
/// deviations not above 0, another number of means than of deviations, or none.
ImageInfo load_image_info(const std::string& dir);

}  // namespace gradus::models
