#pragma once
// images.json in an image model's folder: how images are normalised, and the names of the classes.

#include <string>
#include <vector>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// How images are normalised for a model, and the classes that it distinguishes.
struct ImageInfo {
  ChannelStats stats;                         ///< mean and standard deviation per channel
  std::vector<std::string> class_names = {};  ///< names of the classes; empty if the model has none
};

///@{
/// Return the path of the file from which load_image_info() reads the means and standard deviations
/// (image_info_path) or the names of the classes (class_names_path). In a Hugging Face folder,
/// these are DIR/preprocessor_config.json and DIR/config.json. Otherwise both are DIR/images.json.
/// Throw Error if DIR/config.json exists and is not JSON.
std::string image_info_path(const std::string& dir);
std::string class_names_path(const std::string& dir);
///@}
/// Writes images.json into an existing model folder: call save_model first. Throws Error if the
/// file cannot be written, if there are no channels, if the numbers of means and standard
/// deviations differ, if one of them is not finite, or if a standard deviation is not above 0.
void save_image_info(const std::string& dir, const ImageInfo& info);
/// Returns the ImageInfo of a folder, read from images.json or from the files of a Hugging Face
/// folder. If a Hugging Face folder does not normalise images, the means are 0 and the standard
/// deviations 1, for each of the num_channels in config.json (3 if missing). Throws Error, naming
/// the file, if a file is missing or invalid, if save_image_info() would reject its values, or if
/// a Hugging Face folder does not scale bytes by 1/255.
ImageInfo load_image_info(const std::string& dir);

}  // namespace gradus::models
