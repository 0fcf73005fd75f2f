#pragma once
// Converts weights between our names and Hugging Face's. Internal: no public header includes this
// file.

#include "gradus/core/files/safetensors.h"
#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/module.h"

namespace gradus::models::internal {

/// All tensors of a folder, from one or several files.
struct HuggingFaceFile {
  std::string path;  ///< path of the file, or of the index of several files
  NamedTensors tensors;
};
/// Reads DIR/model.safetensors or, if it does not exist, the files that
/// DIR/model.safetensors.index.json lists. Throws Error, naming the file, if a file to read is
/// missing or damaged.
HuggingFaceFile read_hugging_face_weights(const std::string& dir);

/// Converts one of our models to a file's dtype and copies the file's tensors into it. Returns the
/// parameters that the file may lack (see LoadOptions) and does lack; these keep their values. If
/// tensors are missing, unexpected, given twice, of the wrong shape or dtype, or differ although
/// they are tied, changes nothing and throws Error. The message begins with the file's path and
/// names such tensors.
NamedTensors load_hugging_face_weights(HuggingFaceFile file, const HuggingFaceConfig& config,
                                       nn::Module& model, const LoadOptions& options);

/// Which heads (layers of the kind HuggingFaceLayer::head) a file must contain.
struct HeadsInFile {
  bool optional = false;                   ///< whether the file may lack heads
  std::vector<std::string> required = {};  ///< our names of the heads that are never optional
};
/// Does the same as load_hugging_face_weights() with any table of names, for example GGUF's.
/// `heads` decides which parameters are optional; by default none is.
NamedTensors load_renamed(const HuggingFaceModel& names, const HeadLayout& layout,
                          HuggingFaceFile file, nn::Module& model, const HeadsInFile& heads = {});

/// Returns our tensors under the names in the table, with compressed ones converted to float32. If
/// lacks_biases is true, adds biases of zeros to the blocks and the last norm.
NamedTensors renamed_tensors(const HuggingFaceModel& names, const HeadLayout& layout,
                             const NamedTensors& ours, bool lacks_biases);

/// Returns the state dict of one of our models under Hugging Face's names, with zeros for biases
/// that GPT-2 has but the model lacks, and without the heads that Hugging Face's classifier lacks.
NamedTensors hugging_face_tensors(const std::string& kind, const Fields& fields,
                                  const nn::Module& model);

}  // namespace gradus::models::internal
