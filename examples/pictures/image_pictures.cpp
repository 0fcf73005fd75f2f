#include "examples/pictures/image_pictures.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "examples/support/text.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/data/images/png.h"

namespace gradus {

using models::ImageData;

// ---- confusion matrix ----

Tensor confusion_matrix(const Tensor& labels, const Tensor& predicted, int64_t classes) {
  core::check(labels.rank() == 1 && labels.shape() == predicted.shape(),
              "confusion_matrix: expected labels (n) and predicted (n), got ", labels.shape(),
              " and ", predicted.shape());
  const Tensor pairs = labels * static_cast<double>(classes) + predicted;
  return scatter_sum({classes * classes}, 0, pairs, ones(pairs.shape()))
      .reshape({classes, classes});
}

HeatMap confusion_map(std::string path, const Tensor& counts,
                      const std::vector<std::string>& class_names) {
  const int64_t classes = counts.size(0);
  const Tensor shares = counts / maximum(sum(counts, 1, keepdim), 1);
  const double largest =
      max(shares * (1 - one_hot(arange(classes), classes, counts.dtype()))).item();
  HeatMap map = heat_map(
      std::move(path),
      "What each class is taken for: share of its images, black from the commonest mistake on",
      {"", shares, class_names, class_names});
  map.x_label = "taken for", map.y_label = "is";
  if (largest > 0) map.largest = largest;
  return map;
}

// ---- features in the plane ----

Tensor principal_plane(const Tensor& features) {
  core::check(features.rank() == 2 && features.numel() > 0,
              "principal_plane: expected features (N, D), got ", features.shape());
  const NoGrad no_grad;
  Tensor x = features.to(float64);
  x = x - mean(x, 0);
  Tensor covariance = matmul(x.mT(), x) / static_cast<double>(x.size(0));
  std::vector<Tensor> directions;
  for (int k = 0; k < 2; ++k) {
    // The initial vector (1, cos 1, cos 2, ...) favours no direction.
    Tensor v = normalize(cos(arange(x.size(1)).to(float64)).unsqueeze(1), 0);
    for (int step = 0; step < 300; ++step) v = normalize(matmul(covariance, v), 0);
    const Tensor variance = sum(v * matmul(covariance, v));
    covariance = covariance - variance * matmul(v, v.mT());
    directions.push_back(v);
  }
  return matmul(x, cat(directions, 1));
}

Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names) {
  const std::vector<double> at = principal_plane(features).to_vector<double>();
  const std::vector<int64_t> of = labels.to_vector<int64_t>();
  Picture picture{std::move(path),
                  "Features of " + with_commas(std::ssize(of)) + " held-out images",
                  "first principal direction",
                  "second",
                  {},
                  false,
                  true};
  for (size_t c = 0; c < class_names.size(); ++c) {
    Series series{class_names[c], {}};
    for (size_t i = 0; i < of.size(); ++i)
      if (of[i] == static_cast<int64_t>(c)) series.points.emplace_back(at[2 * i], at[2 * i + 1]);
    if (!series.points.empty()) picture.series.push_back(std::move(series));
  }
  return picture;
}

// ---- pictures of images ----

int64_t picture_scale(int64_t height) { return std::max<int64_t>(1, 96 / height); }

Tensor attention_overlay(const Tensor& images, const Tensor& weights) {
  core::check(images.rank() == 4 && (images.size(1) == 1 || images.size(1) == 3) &&
                  weights.rank() == 3 && weights.numel() > 0 && weights.size(0) == images.size(0) &&
                  images.size(2) % weights.size(1) == 0 && images.size(3) % weights.size(2) == 0,
              "attention_overlay: expected images (N, 1 or 3, H, W) and weights (N, h, w) whose "
              "sides divide theirs, got ",
              images.shape(), " and ", weights.shape());
  const int64_t n = images.size(0), height = images.size(2), width = images.size(3),
                h = weights.size(1), w = weights.size(2);
  const Tensor share =
      weights / weights.reshape({n, h * w}).max(1, keepdim).values.reshape({n, 1, 1});
  const Tensor red = (0.7 * share)
                         .reshape({n, 1, h, 1, w, 1})
                         .expand({n, 1, h, height / h, w, width / w})
                         .reshape({n, 1, height, width});
  return images * (1 - red) + red * tensor({1.0, 0.15, 0.1}).reshape({3, 1, 1}).to(images.dtype());
}

void draw_attention(const std::string& path, const Tensor& images, const Tensor& weights) {
  const Tensor overlay = attention_overlay(images, weights);
  const Tensor pairs = stack({images.expand(overlay.shape()), overlay}, 1).flatten(0, 1);
  models::write_png(path, models::image_grid(pairs, 8, picture_scale(images.size(2))));
}

namespace {

/// The misclassified images, the most confident first.
std::vector<int64_t> mistakes(const Tensor& logits, const std::vector<int64_t>& labels,
                              const std::vector<int64_t>& predicted) {
  const std::vector<double> sure = max(softmax(logits), 1).values.to_vector<double>();
  std::vector<int64_t> wrong;
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != predicted[i]) wrong.push_back(static_cast<int64_t>(i));
  std::stable_sort(wrong.begin(), wrong.end(), [&](int64_t a, int64_t b) {
    return sure[static_cast<size_t>(a)] > sure[static_cast<size_t>(b)];
  });
  return wrong;
}

}  // namespace

void show_mistakes(const std::string& dir, const ImageData& data, const Tensor& logits) {
  constexpr size_t most = 32;
  const std::vector<std::string>& names = data.class_names();
  const Tensor taken = logits.argmax(1);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < data.size(); ++i) labels.push_back(data.label(i));
  const std::vector<int64_t> predicted = taken.to_vector<int64_t>();
  const Tensor counts = confusion_matrix(from_data(labels, {data.size()}), taken, data.classes());
  std::printf("confusion: %s\n",
              draw_or_write(confusion_map(dir + "/confusion.png", counts, names)).c_str());

  std::vector<int64_t> wrong = mistakes(logits, labels, predicted);
  const std::string path = dir + "/mistakes.png";
  if (wrong.empty()) {
    std::filesystem::remove(path);  // from an earlier run
    std::printf("mistakes: none\n");
    return;
  }
  const size_t all = wrong.size();
  wrong.resize(std::min(all, most));
  const auto shown = static_cast<int64_t>(wrong.size());
  models::write_png(path, models::image_grid(data.batch(from_data(wrong, {shown})).images, 8,
                                             picture_scale(data.shape()[2])));
  std::printf("mistakes: %s shows %s of %s, row by row", path.c_str(), with_commas(shown).c_str(),
              with_commas(static_cast<int64_t>(all)).c_str());
  for (size_t k = 0; k < wrong.size(); ++k) {
    const auto name = [&](const std::vector<int64_t>& of) {
      return visible(names[static_cast<size_t>(of[static_cast<size_t>(wrong[k])])], false);
    };
    std::printf("%s%s for %s", k % 8 == 0 ? "\n  " : ", ", name(predicted).c_str(),
                name(labels).c_str());
  }
  std::putchar('\n');
}

}  // namespace gradus
