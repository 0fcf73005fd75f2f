#pragma once
// Conversion between Hugging Face's config.json and our configuration. Internal: no public header
// includes this file.

#include "gradus/models/folder/fields.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Sets the fields of our model of the given kind from Hugging Face's configuration. Throws Error,
/// naming the file and with nothing changed, if the configuration is of another kind of model, or
/// if our model does not support a value.
void read_fields(const HuggingFaceConfig& config, const std::string& kind, const Fields& fields);
/// Returns the names of the classes in a configuration, from its entry id2label. If id2label is
/// missing or null, returns num_labels (by default 2) default names: LABEL_0, LABEL_1, and so on.
/// If the architecture is ViTModel, which has no classes, returns an empty list. Throws Error,
/// naming the file, on an invalid entry.
std::vector<std::string> class_names_in(const HuggingFaceConfig& config);

/// Returns the values of a configuration, with two changes for a model of Llama's family:
/// - The entries of the objects rope_scaling and rope_parameters move to the top level. rope_theta
///   keeps its name; the other entries get the names "rope_scaling.factor" and so on. If rope_type
///   is "default", the entries other than rope_theta are dropped.
/// - sliding_window becomes null if the model does not use it.
///
/// Throws Error, naming the file and the key, if the configuration of positions or windows is
/// invalid or not supported.
nlohmann::json flat_values(const HuggingFaceModel& model, const HuggingFaceConfig& config);
/// Does the opposite of flat_values() in a configuration of Llama's family: moves
/// "rope_scaling.factor" and so on into an object rope_scaling. If the factor is 1, sets
/// rope_scaling to null instead. For Qwen's models, also adds use_sliding_window and
/// max_window_layers. Does nothing for models of other families.
void nest_values(const HuggingFaceModel& model, nlohmann::ordered_json& config);

/// Returns the count under `key` in a configuration, or `by_default` if the key is missing or null.
/// Throws Error, naming the file, unless the count is a whole number from 1 to 1,000,000.
size_t count_in(const HuggingFaceConfig& config, const char* key, size_t by_default);
/// Returns the value of the integer field called `name`.
int64_t number_of(const Fields& fields, const char* name);
///@{
/// Returns the sizes of a GPT's heads, from its fields or from a configuration. For a configuration
/// whose model is not of Llama's family, all sizes are 0.
HeadLayout head_layout(const Fields& fields);
HeadLayout head_layout(const HuggingFaceConfig& config);
///@}

/// Returns the default name of class i: LABEL_i.
std::string default_class_name(size_t i);

/// Returns the config.json for our model of the given kind and fields. If class_names is empty, the
/// classes are named LABEL_0, LABEL_1, and so on. If the model has no classes, class_names is
/// ignored. Throws Error if Hugging Face has no such model, if it does not support an option, or if
/// class_names is not empty and has another length than the number of classes.
nlohmann::ordered_json make_hugging_face_config(const std::string& kind, const Fields& fields,
                                                const std::vector<std::string>& class_names);

}  // namespace gradus::models::internal
