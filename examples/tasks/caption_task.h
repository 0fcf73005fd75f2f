#pragma once
// Learning from pictures of shapes with captions: what the programs of all such models share.

#include <memory>
#include <string>
#include <vector>

#include "examples/tasks/image_task.h"
#include "gradus/models/data/text/text_batch.h"

namespace gradus {

/// Options of a program that learns from captions: pictures that may be moved a little and, as
/// captions must stay true, neither flipped, turned far nor made grey.
ImageOptions captioned_images();

/// A picture of two shapes has two true captions, "a red circle above a blue square" and "a blue
/// square below a red circle". It trains with the one that it was drawn with, either as often.
class CaptionTask : public ImageTask {
 protected:
  /// The tokenizer is that of the folder that the run begins with or, if there is none, one of the
  /// captions' words. Throws Error on augmentation that makes captions untrue.
  CaptionTask(const ImageOptions& images, const TrainOptions& training);

  /// The captions of a part's images `ids` (B), and their tokens.
  std::vector<std::string> captions(Split part, const Tensor& ids) const;
  models::TextBatch texts(Split part, const Tensor& ids) const;
  /// The part's images in their order as batches of `count` without two that have a true caption in
  /// common: who has one already is left out. What is left at the end is a batch if it is the only.
  std::vector<Tensor> all_different(Split part, int64_t count) const;

  /// A model's configuration with `vocab` as the tokenizer has it. Throws Error if captions do not
  /// fit its `context`.
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
