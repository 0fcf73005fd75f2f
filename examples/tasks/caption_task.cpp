#include "examples/tasks/caption_task.h"

#include <algorithm>
#include <set>

#include "examples/support/tokenizers.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/images/shapes.h"

namespace gradus {

namespace {

/// Refuses augmentation that makes captions untrue. A stored run keeps its shear and crops.
const ImageOptions& with_true_captions(const ImageOptions& images, bool stored) {
  const models::AugmentOptions& a = images.augment;
  core::check(a.flip == 0, "--flip: expected 0, captions name left and right, got ", a.flip);
  core::check(a.grey == 0, "--grey: expected 0, captions name colours, got ", a.grey);
  core::check(a.rotate <= 15,
              "--rotate: expected at most 15 degrees, beyond which captions are wrong, got ",
              a.rotate);
  core::check(stored || a.shear <= 30,
              "--shear: expected at most 30 degrees, beyond which captions are wrong, got ",
              a.shear);
  core::check(stored || a.crop_scale == 0 || a.crop_scale >= 0.8,
              "--crop-scale: expected 0 or at least 0.8, smaller crops lose shapes, got ",
              a.crop_scale);
  return images;
}

/// All possible captions, one per line.
std::string all_captions() {
  std::string text;
  for (const std::string& caption : models::shape_captions()) text += caption + '\n';
  return text;
}

}  // namespace

ImageOptions captioned_images() {
  return {.data = "shapes:20000", .batch = 64, .augment = {.shift = 2}, .captioned = true};
}

CaptionTask::CaptionTask(const ImageOptions& images, const TrainOptions& training)
    : ImageTask(with_true_captions(images, training.from_checkpoint()), training),
      tokenizer_(make_tokenizer({.name = "word"}, training.begins_with(), all_captions(),
                                {"[PAD]", "[UNK]", "[START]", "[END]"})) {}

std::vector<std::string> CaptionTask::captions(Split part, const Tensor& ids) const {
  std::vector<std::string> found;
  for (const int64_t id : ids.to_vector<int64_t>())
    found.push_back(corpus_.captions(part)[static_cast<size_t>(id)]);
  return found;
}

models::TextBatch CaptionTask::texts(Split part, const Tensor& ids) const {
  return models::text_batch(*tokenizer_, captions(part, ids));
}

std::vector<Tensor> CaptionTask::all_different(Split part, int64_t count) const {
  std::vector<Tensor> batches;
  std::vector<int64_t> ids;
  std::set<std::string> seen;
  const auto close = [&] {
    batches.push_back(from_data(ids, {std::ssize(ids)}));
    ids.clear(), seen.clear();
  };
  const std::vector<std::string>& all = corpus_.captions(part);
  for (int64_t i = 0; i < std::ssize(all); ++i) {
    const std::string& caption = all[static_cast<size_t>(i)];
    if (!seen.insert(std::min(caption, models::swapped_caption(caption))).second) continue;
    ids.push_back(i);
    if (std::ssize(ids) == count) close();
  }
  if (batches.empty()) close();
  return batches;
}

void CaptionTask::check_context(int64_t context, int64_t unread) const {
  for (const Split part : {Split::train, Split::validation}) {
    const auto n = std::ssize(corpus_.captions(part));
    const int64_t longest = max(texts(part, arange(n)).lengths).item<int64_t>() - unread;
    core::check(longest <= context, "--context ", context, ": the longest caption has ", longest,
                " tokens");
  }
}

}  // namespace gradus
