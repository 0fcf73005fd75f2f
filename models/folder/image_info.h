#pragma once
// images.json in an image model's folder: how images are normalised, and the names of the classes.

#include <string>
#include <vector>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// How images are normalised for a model, and the classes that it distinguishes.
struct ImageInfo {
  ChannelStats stats;                         ///< mean and standard deviation per channel
  std::vector<std::string> class_names = {};  ///< empty for a model without classes
};

/// Returns the path of DIR/images.json, or of DIR/preprocessor_config.json if only that exists.
std::string image_info_path(const std::string& dir);
/// Returns the path of the file with the class names: DIR/config.json if image_info_path() is
/// DIR/preprocessor_config.json, otherwise DIR/images.json.
std::string class_names_path(const std::string& dir);
/// Writes images.json into an existing model folder, so call it after save_model. Throws Error on
/// failure, or unless there are as many deviations as means, and at least one.
void save_image_info(const std::string& dir, const ImageInfo& info);
/// Reads the ImageInfo of a folder, from images.json or from the files of a Hugging Face folder.
/// Throws Error, naming the file, if one is missing or invalid: for example, if a value is not
/// finite, if a standard deviation is not above 0, if the numbers of means and standard deviations
/// differ, or if a Hugging Face folder does not scale bytes by 1/255. If a Hugging Face folder does
/// not normalise, all means are 0 and all standard deviations 1.
ImageInfo load_image_info(const std::string& dir);

}  // namespace gradus::models
