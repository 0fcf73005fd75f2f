#include "examples/pictures/image_pictures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "examples/support/text.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/data/images/shapes.h"

namespace gradus {

using models::ImageData, models::LabelledFeatures;

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
  std::vector<Tensor> coordinates;
  for (int k = 0; k < 2; ++k) {
    const Tensor covariance = matmul(x.mT(), x) / static_cast<double>(x.size(0));
    // The initial vector (1, cos 1, cos 2, ...) favours no direction.
    Tensor v = normalize(cos(arange(x.size(1)).to(float64)).unsqueeze(1), 0);
    for (int step = 0; step < 300; ++step) v = normalize(matmul(covariance, v), 0);
    coordinates.push_back(matmul(x, v));
    x = x - matmul(coordinates.back(), v.mT());
  }
  return cat(coordinates, 1);
}

namespace {
/// A colour as gnuplot reads it, "#rrggbb".
std::string in_hex(const std::array<double, 3>& rgb) {
  char text[8];
  const auto byte = [&](size_t c) { return static_cast<unsigned>(255 * rgb[c] + 0.5) & 255; };
  std::snprintf(text, sizeof text, "#%02x%02x%02x", byte(0), byte(1), byte(2));
  return text;
}
}  // namespace

Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names) {
  const std::vector<double> at = principal_plane(features).to_vector<double>();
  const std::vector<int64_t> of = labels.to_vector<int64_t>();
  Picture picture{.path = std::move(path),
                  .title = "Features of " + with_commas(std::ssize(of)) + " held-out images",
                  .x_label = "first principal direction",
                  .y_label = "second principal direction",
                  .series = {},
                  .clouds = true};
  for (size_t c = 0; c < class_names.size(); ++c) {
    Series series{class_names[c], {}};
    for (size_t i = 0; i < of.size(); ++i)
      if (of[i] == static_cast<int64_t>(c)) series.points.emplace_back(at[2 * i], at[2 * i + 1]);
    if (series.points.empty()) continue;
    if (const auto shape = models::shape_of_class(series.name)) {
      series.mark = shape->form, series.colour = in_hex(shape->rgb);
      picture.ground = "#7f7f7f";  // shapes may be white
    } else if (columns_of(visible(series.name)) == 1) {
      series.mark = series.name;  // a digit
    }
    picture.series.push_back(std::move(series));
  }
  return picture;
}

// ---- pictures of images ----

Tensor attention_overlay(const Tensor& images, const Tensor& weights) {
  core::check(images.rank() == 4 && (images.size(1) == 1 || images.size(1) == 3) &&
                  weights.rank() == 3 && weights.numel() > 0 && weights.size(0) == images.size(0) &&
                  images.size(2) % weights.size(1) == 0 && images.size(3) % weights.size(2) == 0,
              "attention_overlay: expected images (N, 1 or 3, H, W) and weights (N, h, w) whose "
              "sides divide theirs, got ",
              images.shape(), " and ", weights.shape());
  const int64_t n = images.size(0), height = images.size(2), width = images.size(3),
                h = weights.size(1), w = weights.size(2);
  const Tensor most = weights.reshape({n, h * w}).max(1, keepdim).values.reshape({n, 1, 1}),
               share = weights / most.masked_fill(most == 0, 1);
  const Tensor red = (0.7 * share)
                         .reshape({n, 1, h, 1, w, 1})
                         .expand({n, 1, h, height / h, w, width / w})
                         .reshape({n, 1, height, width});
  return images * (1 - red) + red * tensor({1.0, 0.15, 0.1}).reshape({3, 1, 1}).to(images.dtype());
}

namespace {

/// Two lines of text: the names of the classes that images are, and that they are taken for. If
/// `then_blank`, an image without text follows each.
std::vector<TileLine> is_and_taken_for(const Tensor& labels, const Tensor& predicted,
                                       const std::vector<std::string>& class_names,
                                       bool then_blank = false) {
  std::vector<TileLine> lines{{"is"}, {"taken for"}};
  for (TileLine& line : lines)
    for (const int64_t label : (line.name == "is" ? labels : predicted).to_vector<int64_t>()) {
      line.texts.push_back(class_names[static_cast<size_t>(label)]);
      if (then_blank) line.texts.emplace_back();
    }
  return lines;
}

/// Indices of the misclassified images, the most confident first.
std::vector<int64_t> mistakes(const LabelledFeatures& logits, const Tensor& predicted) {
  const std::vector<double> sure = max(softmax(logits.features), 1).values.to_vector<double>(),
                            miss = ne(logits.labels, predicted).to_vector<double>();
  std::vector<int64_t> wrong;
  for (size_t i = 0; i < miss.size(); ++i)
    if (miss[i] != 0) wrong.push_back(static_cast<int64_t>(i));
  std::stable_sort(wrong.begin(), wrong.end(), [&](int64_t a, int64_t b) {
    return sure[static_cast<size_t>(a)] > sure[static_cast<size_t>(b)];
  });
  return wrong;
}

}  // namespace

Tiles attention_tiles(std::string path, const models::ImageBatch& batch, const Tensor& weights,
                      const Tensor& predicted, const std::vector<std::string>& class_names) {
  const Tensor overlay = attention_overlay(batch.images, weights);
  Tiles tiles{.path = std::move(path),
              .title = "Held-out images, each beside the model's attention: the redder, the more",
              .images = stack({batch.images.expand(overlay.shape()), overlay}, 1).flatten(0, 1),
              .lines = is_and_taken_for(batch.labels, predicted, class_names, true)};
  for (int64_t i = 0; i < tiles.across; ++i)
    tiles.headings.emplace_back(i % 2 == 0 ? "image" : "attention");
  return tiles;
}

std::optional<Tiles> mistake_tiles(std::string path, const ImageData& data,
                                   const LabelledFeatures& logits) {
  constexpr size_t most = 32;
  const Tensor predicted = logits.features.argmax(1);
  std::vector<int64_t> wrong = mistakes(logits, predicted);
  if (wrong.empty()) return {};
  const std::string of_all = " of " + with_commas(std::ssize(wrong)) + " mistakes";
  wrong.resize(std::min(wrong.size(), most));
  const Tensor ids = from_data(wrong, {std::ssize(wrong)});
  const models::ImageBatch batch = data.batch(ids);
  return Tiles{
      .path = std::move(path),
      .title = with_commas(std::ssize(wrong)) + of_all + ", the most confident first",
      .images = batch.images,
      .lines = is_and_taken_for(batch.labels, index_select(predicted, 0, ids), data.class_names())};
}

void show_mistakes(const std::string& dir, const ImageData& data, const LabelledFeatures& logits) {
  const Tensor counts = confusion_matrix(logits.labels, logits.features.argmax(1), data.classes());
  const HeatMap map = confusion_map(dir + "/confusion.png", counts, data.class_names());
  std::printf("confusion: %s\n", draw_or_write(map).c_str());
  const std::string path = dir + "/mistakes.png";
  const std::optional<Tiles> tiles = mistake_tiles(path, data, logits);
  std::error_code error;
  if (!tiles) std::filesystem::remove(path, error);  // from an earlier run
  core::check(!error, "cannot remove ", path, ": ", error.message());
  std::printf("mistakes: %s\n", tiles ? draw_or_write(*tiles).c_str() : "none");
}

}  // namespace gradus
