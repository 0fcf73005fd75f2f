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

///@{
/// Return the path of the file from which load_image_info() reads the means and deviations, or the
/// names of the classes: DIR/preprocessor_config.json and DIR/config.json in a Hugging Face folder,
/// otherwise DIR/images.json. Throw Error if DIR/config.json exists and is not JSON.
std::string image_info_path(const std::string& dir);
std::string class_names_path(const std::string& dir);
///@}
/// Writes images.json into an existing model folder, so call it after save_model. Throws Error on
/// failure, or unless there are as many deviations as means, at least one, all means are finite and
/// all deviations finite and above 0.
void save_image_info(const std::string& dir, const ImageInfo& info);
/// Reads the ImageInfo of a folder, from images.json or from the files of a Hugging Face folder.
/// Throws Error, naming the file, if one is missing or invalid: for example, if a value is not
/// finite, if a standard deviation is not above 0, if the numbers of means and standard deviations
/// differ, or if a Hugging Face folder does not scale bytes by 1/255. If a Hugging Face folder does
/// not normalise, all means are 0 and all standard deviations 1.
ImageInfo load_image_info(const std::string& dir);

}  // namespace gradus::models
