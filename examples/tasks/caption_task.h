#pragma once
// Code shared by the programs that train on captioned pictures of shapes.

#include <memory>
#include <string>
#include <vector>

#include "examples/tasks/image_task.h"
#include "gradus/models/data/text/text_batch.h"

namespace gradus {

/// Returns the default options for captioned pictures. Augmentation is limited to small shifts, so
/// that captions stay true.
ImageOptions captioned_images();

/// A training task on captioned pictures. A picture of two shapes has two true captions, for
/// example "a red circle above a blue square" and "a blue square below a red circle". Training uses
/// only one of the two, which was chosen at random when the picture was generated.
class CaptionTask : public ImageTask {
 protected:
  /// Loads the tokenizer from the folder with the run's initial weights. If the run starts from
  /// scratch, makes one from the words of all possible captions. Throws Error if augmentation flips
  /// images, converts them to grey, rotates them by more than 15 degrees, shears them by more than
  /// 30 degrees, or crops them to less than 0.8 of their area: captions would become untrue. (If
  /// the run continues from a checkpoint, shear and crops are not checked.) Other changes are never
  /// checked. A large shift, zoom or erased rectangle can also remove a shape. Strong changes of
  /// brightness, contrast or saturation can change its colour.
  CaptionTask(const ImageOptions& images, const TrainOptions& training);

  /// Returns the captions of images `ids` (B) of a split.
  std::vector<std::string> captions(Split part, const Tensor& ids) const;
  /// Returns the captions of images `ids` (B) of a split, as tokens.
  models::TextBatch texts(Split part, const Tensor& ids) const;
  /// Returns the ids of a split's images, in order, in batches of `count`. Two images of a batch
  /// never share a true caption: an image that shares one with an earlier image of the batch is
  /// skipped. An incomplete last batch is dropped, unless it is the only batch.
  std::vector<Tensor> all_different(Split part, int64_t count) const;

  /// Returns `config` with `vocab` set to the tokenizer's vocabulary size. `unread` is 1 if the
  /// model does not read [END], else 0. Throws Error if a caption, with [START] and [END], has more
  /// than `config.context + unread` tokens.
  template <class Config>
  Config with_words(Config config, int64_t unread = 0) const {
    config.vocab = tokenizer_->vocab_size();
    check_context(config.context, unread);
    return config;
  }

  const std::unique_ptr<models::Tokenizer> tokenizer_;

 private:
  void check_context(int64_t context, int64_t unread) const;
};

}  // namespace gradus
