#include "examples/tasks/encoder_task.h"

#include <cstdio>

#include "examples/pictures/image_pictures.h"
#include "gradus/core/runtime/random.h"

namespace gradus {

using models::LabelledFeatures, models::ViT;

void add_flags(Flags& flags, EncoderOptions& o) {
  add_flags(flags, o.images);
  flags.add("--probe-images", o.probe_images, 2, 1e9,
            "training images for the probes of the final evaluation");
}

EncoderTask::EncoderTask(const EncoderOptions& o, const TrainOptions& training, int64_t views)
    : ImageTask(o.images, training, views), probe_images_(o.probe_images) {}

LabelledFeatures EncoderTask::features_of(const ViT& encoder, Split part, int64_t most) const {
  return over(
      part, [&](const Tensor& images) { return encoder.features(images); }, most);
}

std::vector<NamedMean> EncoderTask::probes() const {
  const int64_t held_out = corpus_.part(Split::validation).size();
  const auto known = [&](const ViT& e) { return features_of(e, Split::train, probe_images_); };
  const auto test_of = [&](const ViT& e) { return features_of(e, Split::validation, held_out); };
  const LabelledFeatures train = known(encoder()), test = test_of(encoder());
  manual_seed(training_.seed);
  const ViT untrained(encoder().config);
  const auto n = static_cast<double>(held_out);
  return {{"probe", models::linear_probe(train, test), n},
          {"random_probe", models::linear_probe(known(untrained), test_of(untrained)), n},
          {"neighbours", models::neighbour_accuracy(train, test), n}};
}

Evaluation EncoderTask::validation() {
  Evaluation whole = ImageTask::validation();
  whole.score = [this, losses = whole.score](int64_t i) {
    Score score = losses(i);
    if (i == 0)  // only once: the probes cover all batches
      for (NamedMean& mean : probes()) score.more.push_back(std::move(mean));
    return score;
  };
  return whole;
}

void EncoderTask::show() {
  const auto [features, labels] = features_of(encoder(), Split::validation, 2000);
  const std::vector<std::string>& names = corpus_.part(Split::validation).class_names();
  const std::string path = training_.out + "/embeddings.png";
  std::printf("embeddings: %s\n",
              draw_or_write(embedding_plane(path, features, labels, names)).c_str());
}

}  // namespace gradus
