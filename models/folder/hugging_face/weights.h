#pragma once
// Weights under Hugging Face's names. For the library's own use: no public header includes this.

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
/// Reads DIR/model.safetensors or the files that DIR/model.safetensors.index.json lists. Throws
/// Error, naming the file, if both are missing or one is damaged.
HuggingFaceFile read_hugging_face_weights(const std::string& dir);

/// Converts one of our models to a file's dtype and copies the file's tensors into it. Returns the
/// optional parameters that the file lacks; they keep their values. Throws Error, opening with the
/// file's path and listing what is missing, unexpected or of another shape, with nothing changed.
NamedTensors load_hugging_face_weights(HuggingFaceFile file, const HuggingFaceConfig& config,
                                       nn::Module& model, const LoadOptions& options);

/// The heads of a file.
struct HeadsInFile {
  bool optional = false;                   ///< whether the file may lack heads
  std::vector<std::string> required = {};  ///< our names of those that it must have even so
};
/// The part of load_hugging_face_weights() that any table of names can share, GGUF's too.
NamedTensors load_renamed(const HuggingFaceModel& names, const HeadLayout& layout,
                          HuggingFaceFile file, nn::Module& model, const HeadsInFile& heads = {});

/// Our tensors under the table's names. If lacks_biases, blocks and the last norm get biases of
/// zeros.
NamedTensors renamed_tensors(const HuggingFaceModel& names, const HeadLayout& layout,
                             const NamedTensors& ours, bool lacks_biases);

/// A model's parameters under Hugging Face's names.
NamedTensors hugging_face_tensors(const std::string& kind, const Fields& fields,
                                  const nn::Module& model);

}  // namespace gradus::models::internal
