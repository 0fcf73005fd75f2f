#pragma once
// Conversion between Hugging Face's config.json and our configuration. Internal: no public header
// includes this file.

#include "gradus/models/folder/fields.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Sets the fields of our model of this kind from the configuration. If the configuration is of
/// another kind of model, or our model does not support a value, changes nothing and throws Error,
/// which names the file.
void read_fields(const HuggingFaceConfig& config, const std::string& kind, const Fields& fields);
/// Returns the names of the classes, from id2label. If id2label is missing or null, returns default
/// names, LABEL_0, LABEL_1, and so on: num_labels of them, or two if num_labels is missing too.
/// Returns none for a ViTModel, which has no classes. Throws Error, naming the file, on an invalid
/// entry.
std::vector<std::string> class_names_in(const HuggingFaceConfig& config);

/// Returns the values of a configuration, unchanged if its model is not of Llama's family.
/// Otherwise moves the numbers in rope_scaling and rope_parameters to the top level: rope_theta
/// keeps its name, the others become "rope_scaling.factor" and so on. If the rope_type is
/// "default", keeps only rope_theta of these. Sets sliding_window to null if the model does not use
/// it. Throws Error, naming the file and the key, on invalid or unsupported positions or windows.
nlohmann::json flat_values(const HuggingFaceModel& model, const HuggingFaceConfig& config);
/// Changes a configuration of Llama's family in place: moves the values under
/// "rope_scaling.factor" and so on into an object rope_scaling, or sets rope_scaling to null if the
/// factor is 1. For Qwen's models, also adds use_sliding_window and max_window_layers.
void nest_values(const HuggingFaceModel& model, nlohmann::ordered_json& config);

/// Returns the value of a field that is a whole number.
int64_t number_of(const Fields& fields, const char* name);
///@{
/// Returns the sizes of a GPT's heads, from its fields or from a configuration. For a configuration
/// whose model is not of Llama's family, all sizes are 0.
HeadLayout head_layout(const Fields& fields);
HeadLayout head_layout(const HuggingFaceConfig& config);
///@}

/// Returns the default name of class i: LABEL_i.
std::string default_class_name(size_t i);

/// Returns the config.json for one of our models, from its kind and fields. If class_names is
/// empty, the classes are named LABEL_0, LABEL_1, and so on. If the model has no classes,
/// class_names is ignored. Throws Error if Hugging Face has no such model or does not support an
/// option, and if there are names but not one for each class.
nlohmann::ordered_json make_hugging_face_config(const std::string& kind, const Fields& fields,
                                                const std::vector<std::string>& class_names);

}  // namespace gradus::models::internal
