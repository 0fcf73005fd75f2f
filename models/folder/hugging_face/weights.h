#pragma once
// Loads weights from Hugging Face's files into our models, and converts our weights for such files.
// Internal: no public header includes this file.

#include "gradus/core/files/safetensors.h"
#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/module.h"

namespace gradus::models::internal {

/// All tensors of a folder, from one file or several.
struct HuggingFaceFile {
  std::string path;  ///< path of the file, or of the index of several files
  NamedTensors tensors;
};
/// Reads DIR/model.safetensors or, if it does not exist, the files that
/// DIR/model.safetensors.index.json lists. Throws Error, naming the file, if a file to read is
/// missing or damaged.
HuggingFaceFile read_hugging_face_weights(const std::string& dir);

/// Converts one of our models to the file's dtype, and copies the file's tensors into it. Returns
/// the parameters that the file lacks, which keep their values. LoadOptions says which parameters
/// may be missing. Throws Error, with nothing changed, if any other parameter is missing, if a
/// tensor is unexpected, given twice, or of the wrong shape or dtype, or if tied tensors differ.
/// The message begins with the file's path and names the tensors.
NamedTensors load_hugging_face_weights(HuggingFaceFile file, const HuggingFaceConfig& config,
                                       nn::Module& model, const LoadOptions& options);

/// Which heads (layers of the kind HuggingFaceLayer::head) a file must contain.
struct HeadsInFile {
  bool optional = false;                   ///< whether the file may lack heads, except those in
                                           ///< `required`
  std::vector<std::string> required = {};  ///< our names of heads that the file must always have
};
/// Loads weights as load_hugging_face_weights() does, from a file with the tensor names that
/// `names` describes, for example a GGUF file. `heads` says which layers above the encoder, such as
/// a classifier, the file may lack. By default, the file must contain all layers.
NamedTensors load_renamed(const HuggingFaceModel& names, const HeadLayout& layout,
                          HuggingFaceFile file, nn::Module& model, const HeadsInFile& heads = {});

/// Converts `ours`, tensors of one of our models, to the tensors of a file: renames, transposes and
/// reorders them as `names` describes, and splits a tensor that the file stores as several. `names`
/// must have a layer for every tensor. `layout` is used only for layers of the kinds rotary and
/// heads (see HuggingFaceLayer). Tensors in bfloat16 or int8 become float32. If lacks_biases is
/// true (the file needs biases that our model lacks), adds zeros as biases of the blocks and of the
/// last norm.
NamedTensors renamed_tensors(const HuggingFaceModel& names, const HeadLayout& layout,
                             const NamedTensors& ours, bool lacks_biases);

/// Returns the state dict of one of our models as Hugging Face's files store it. Biases that GPT-2
/// has but our model lacks become zeros. Heads that Hugging Face's classifier lacks are left out.
NamedTensors hugging_face_tensors(const std::string& kind, const Fields& fields,
                                  const nn::Module& model);

}  // namespace gradus::models::internal
