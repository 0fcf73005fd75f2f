#pragma once
// Code shared by the programs that train on captioned pictures of shapes.

#include <memory>
#include <string>
#include <vector>

#include "examples/tasks/image_task.h"
#include "gradus/models/data/text/text_batch.h"

namespace gradus {

/// Default options for captioned pictures: augmentation only by small shifts, so that captions stay
/// true.
ImageOptions captioned_images();

/// A picture of two shapes has two true captions, "a red circle above a blue square" and "a blue
/// square below a red circle". Training uses only the one that the picture was generated with,
/// which is equally often of either form.
class CaptionTask : public ImageTask {
 protected:
  /// Loads the tokenizer of the folder that the run starts from, or else makes one from the words
  /// of all captions. Throws Error on augmentation that makes captions untrue.
  CaptionTask(const ImageOptions& images, const TrainOptions& training);

  /// The captions of images `ids` (B) of a part.
  std::vector<std::string> captions(Split part, const Tensor& ids) const;
  /// The captions of images `ids` (B) of a part, as tokens.
  models::TextBatch texts(Split part, const Tensor& ids) const;
  /// The ids of a part's images, in order, in batches of `count`. No two images of a batch share a
  /// true caption: an image whose caption is already in the batch is skipped. An incomplete batch
  /// is dropped unless it is the only one.
  std::vector<Tensor> all_different(Split part, int64_t count) const;

  /// Returns `config` with `vocab` set to the tokenizer's vocabulary size. Throws Error if a
  /// caption has more than config.context tokens.
  template <class Config>
  Config with_words(Config config) const {
    config.vocab = tokenizer_->vocab_size();
    check_context(config.context);
    return config;
  }

  const std::unique_ptr<models::Tokenizer> tokenizer_;

 private:
  void check_context(int64_t context) const;
};

}  // namespace gradus
