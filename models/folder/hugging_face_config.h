#pragma once
// Hugging Face's config.json, read as and written from our configuration. For the library's own
// use: no public header includes this.

#include "gradus/models/folder/fields.h"
#include "gradus/models/folder/hugging_face_models.h"

namespace gradus::models::internal {

/// Sets the fields of our kind of model to what the configuration says. Throws Error, naming the
/// file, on what our model does not support; then nothing has been changed.
void read_fields(const HuggingFaceConfig& config, const std::string& kind, const Fields& fields);
/// The names of the classes, from id2label; without it LABEL_0, LABEL_1, ... for num_labels, or 2.
std::vector<std::string> class_names_in(const HuggingFaceConfig& config);

/// The name of class i where none is given: LABEL_i.
std::string default_class_name(size_t i);

/// The config.json of a model of ours. Without class names it says LABEL_0, LABEL_1, .... Throws
/// Error on what Hugging Face's model does not support.
nlohmann::ordered_json make_hugging_face_config(const std::string& kind, const Fields& fields,
                                                const std::vector<std::string>& class_names);

}  // namespace gradus::models::internal
