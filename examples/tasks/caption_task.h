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
/// square below a red circle". Training uses the one it was generated with; both are equally
/// frequent.
class CaptionTask : public ImageTask {
 protected:
  /// Takes the tokenizer of the folder that the run starts from, or else makes one of the captions'
  /// words. Throws Error on augmentation that makes captions untrue.
  CaptionTask(const ImageOptions& images, const TrainOptions& training);

  /// The captions of images `ids` (B) of a part.
  std::vector<std::string> captions(Split part, const Tensor& ids) const;
  /// The captions as tokens.
  models::TextBatch texts(Split part, const Tensor& ids) const;
  /// Batches of `count` images of a part, in order. No two images of a batch share a true caption:
  /// duplicates are skipped. An incomplete batch is dropped unless it is the only one.
  std::vector<Tensor> all_different(Split part, int64_t count) const;

  /// Sets a configuration's `vocab` to the tokenizer's. Throws Error if a caption exceeds
  /// `context`.
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
