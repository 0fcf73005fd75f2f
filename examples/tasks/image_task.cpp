#include "examples/tasks/image_task.h"

#include <algorithm>

#include "examples/support/text.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/images/png.h"

namespace gradus {

using models::ImageBatch, models::ImageData, models::ImageInfo;

namespace {

ImageInfo info_for(const ImageData& train, const std::string& begins_with) {
  if (begins_with.empty()) return {train.stats(), train.class_names()};
  const ImageInfo info = models::load_image_info(begins_with);
  core::check(std::ssize(info.stats.mean) == train.shape()[1], models::image_info_path(begins_with),
              ": images of ", info.stats.mean.size(), " channels, --data has ", train.shape()[1]);
  return {info.stats, train.class_names()};
}

}  // namespace

ImageTask::ImageTask(const ImageOptions& images, const TrainOptions& training, int64_t views)
    : images_(images),
      training_(training),
      corpus_(read_image_corpus(images_)),
      image_info_(info_for(corpus_.images.train, training_.begins_with())),
      views_(views),
      batches_(
          [this](int64_t step, int64_t index) {
            const int64_t batch = step * training_.accumulate + index;
            return make_views(shuffled(corpus_.images.train, training_.seed, batch), training_.seed,
                              batch, true);
          },
          training_.batch_order()) {}

ImageBatch ImageTask::shuffled(const ImageData& data, uint64_t seed, int64_t index) const {
  return data.shuffled(images_.batch, seed, index, {}, views_ > 1);
}

ImageTask::Views ImageTask::make_views(const ImageBatch& batch, uint64_t seed, int64_t index,
                                       bool changed) const {
  Views views;
  for (int64_t view = 0; view < views_; ++view) {
    const Tensor images = changed ? models::augment(batch.images, images_.augment, seed,
                                                    index * views_ + view, batch.ids)
                                  : batch.images;
    views.push_back({models::normalize(images, image_info_.stats), batch.labels, batch.ids});
  }
  return views;
}

Evaluation ImageTask::evaluation(Split part, int64_t images) const {
  const ImageData& data = corpus_.part(part);
  const int64_t count = std::min(images, data.size()), batches = num_batches(count, images_.batch);
  const bool is_whole = count == data.size();
  return {batches, static_cast<double>(count), [this, part, &data, batches, is_whole](int64_t i) {
            // All images, in batches whose sizes differ by at most one.
            const int64_t first = i * data.size() / batches, next = (i + 1) * data.size() / batches;
            const uint64_t seed = ~training_.seed;
            return score(part, make_views(is_whole ? data.range(first, next - first)
                                                   : shuffled(data, seed, i),
                                          seed, i, views_ > 1));
          }};
}

Evaluation ImageTask::evaluation(Split part, std::vector<Tensor> batches) const {
  double images = 0;
  for (const Tensor& ids : batches) images += static_cast<double>(ids.numel());
  const int64_t count = std::ssize(batches);
  return {count, images, [this, part, batches = std::move(batches)](int64_t i) {
            return score(part, make_views(corpus_.part(part).batch(batches[static_cast<size_t>(i)]),
                                          ~training_.seed, i, false));
          }};
}

Evaluation ImageTask::estimate(Split part, int64_t) {
  return evaluation(part, training_.eval_batches * images_.batch);
}

Evaluation ImageTask::validation() {
  return evaluation(Split::validation, corpus_.part(Split::validation).size());
}

models::LabelledFeatures ImageTask::over(Split part, const std::function<Tensor(const Tensor&)>& f,
                                         int64_t most) const {
  const ImageData& data = corpus_.part(part);
  most = std::min(most, data.size());
  std::vector<Tensor> rows, labels;
  for (int64_t first = 0; first < most; first += images_.batch) {
    const ImageBatch batch =
        data.range(first, std::min(images_.batch, most - first), image_info_.stats);
    rows.push_back(f(batch.images));
    labels.push_back(batch.labels);
  }
  return {cat(rows, 0), cat(labels, 0)};
}

void ImageTask::write_example() const {
  const ImageData& data = corpus_.part(Split::validation);
  models::write_png(training_.out + "/example.png", data.image(data.size() / 2));
}

std::string ImageTask::try_with(const std::string& program, const std::string& dir) const {
  return "model in " + dir + "; try: build/bin/" + program + " --model " + in_shell(dir) + ' ' +
         in_shell(dir + "/example.png") + '\n';
}

TaskInfo ImageTask::info_of(std::string name, std::string loss, const nn::Module& model,
                            const std::string& shape) const {
  return {.model = std::move(name),
          .loss = std::move(loss),
          .items = "images",
          .batch_items = images_.batch,
          .data_id = corpus_.id,
          .opening = corpus_.about + "model  " + with_commas(model.num_parameters()) +
                     " parameters: " + shape + '\n'};
}

std::string shape_of(const models::ViTConfig& c) {
  return std::to_string(c.layers) + " layers of width " + std::to_string(c.dim) + " with " +
         std::to_string(c.heads) + " heads, patches of " + std::to_string(c.patch) + " x " +
         std::to_string(c.patch) + " pixels";
}

}  // namespace gradus
