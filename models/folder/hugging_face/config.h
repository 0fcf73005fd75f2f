#pragma once
// Conversion between Hugging Face's config.json and our configuration. For the library's own use:
// no public header includes this.

#include "gradus/models/folder/fields.h"
#include "gradus/models/folder/hugging_face/models.h"

namespace gradus::models::internal {

/// Sets the fields of our model of this kind from the configuration. Throws Error, naming the file,
/// with nothing changed, on what our model does not support.
void read_fields(const HuggingFaceConfig& config, const std::string& kind, const Fields& fields);
/// The names of the classes, from id2label. Without id2label: LABEL_0, LABEL_1, ..., as many as
/// num_labels says, or 2.
std::vector<std::string> class_names_in(const HuggingFaceConfig& config);

/// The configuration's values, of which a model of Llama's family has some in objects: those of
/// rope_scaling get the keys "rope_scaling.factor" and so on; sliding_window is null where it is not
/// used. Throws Error, naming the file and the key, on positions or windows that we lack.
nlohmann::json flat_values(const HuggingFaceModel& model, const HuggingFaceConfig& config);
/// The inverse of flat_values(), in place.
void nest_values(const HuggingFaceModel& model, nlohmann::ordered_json& config);

/// The value of a whole number's field.
int64_t number_of(const Fields& fields, const char* name);
///@{
/// The sizes of a GPT's heads, by its fields or its configuration; zeros unless that is of Llama's
/// family.
HeadLayout head_layout(const Fields& fields);
HeadLayout head_layout(const HuggingFaceConfig& config);
///@}

/// The default name of class i: LABEL_i.
std::string default_class_name(size_t i);

/// The config.json of one of our models. If class_names is empty, the names are LABEL_0, LABEL_1,
/// .... Throws Error on what Hugging Face's model does not support.
nlohmann::ordered_json make_hugging_face_config(const std::string& kind, const Fields& fields,
                                                const std::vector<std::string>& class_names);

}  // namespace gradus::models::internal
