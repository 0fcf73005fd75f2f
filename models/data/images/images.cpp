#include "gradus/models/data/images/images.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/models/data/images/cifar.h"
#include "gradus/models/data/images/idx.h"
#include "gradus/models/data/images/shapes.h"

namespace gradus::models {

namespace {

/// Throws Error unless `stats` is empty or has a finite mean and a positive deviation per channel.
void check_stats(const char* op, const ChannelStats& stats, int64_t channels) {
  if (stats.mean.empty() && stats.std.empty()) return;
  check(std::ssize(stats.mean) == channels && std::ssize(stats.std) == channels, op, ": expected ",
        channels, " means and deviations, one per channel, got ", stats.mean.size(), " and ",
        stats.std.size());
  for (size_t c = 0; c < stats.mean.size(); ++c)
    check(std::isfinite(stats.mean[c]) && std::isfinite(stats.std[c]) && stats.std[c] > 0, op,
          ": expected finite means and deviations above 0, got ", stats.mean[c], " and ",
          stats.std[c]);
}

/// (C, 1, 1), which broadcasts over images.
Tensor of_channels(const std::vector<double>& numbers, Dtype dtype) {
  return from_data(numbers, {std::ssize(numbers), 1, 1}).to(dtype);
}

void check_images(const char* op, const Tensor& x, const ChannelStats& stats) {
  check(x.rank() == 4 && is_floating(x.dtype()), op,
        ": expected floating images (N, C, H, W), got ", x.dtype(), " ", x.shape());
  check_stats(op, stats, x.size(1));
}

/// Returns element `index` of an epoch's random permutation of [0, n), without a list of n numbers.
/// A Feistel network on numbers of 2 * half bits is applied until the result is below n (Black &
/// Rogaway 2002, "Ciphers with Arbitrary Finite Domains").
int64_t shuffled_index(int64_t n, uint64_t seed, int64_t epoch, int64_t index) {
  const int half = (std::bit_width(static_cast<uint64_t>(n - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const auto word = [](uint64_t bits) { return static_cast<uint32_t>(bits); };
  const auto e = static_cast<uint64_t>(epoch);
  auto x = static_cast<uint64_t>(index);
  do {
    for (uint32_t round = 0; round < 6; ++round) {
      const uint64_t left = x >> half, right = x & mask;  // at most 32 bits
      const auto random =
          philox4x32({word(right), round, word(e), word(e >> 32)}, {word(seed), word(seed >> 32)});
      x = right << half | (left ^ (random[0] & mask));
    }
  } while (x >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(x);
}

}  // namespace

// ---- pictures ----

Tensor to_tensor(const ImageBytes& image) {
  return from_bytes(image.bytes, {image.channels, image.height, image.width}) / 255;
}

ImageBytes image_grid(const Tensor& images, int64_t columns, int64_t scale) {
  check(images.rank() == 4 && is_floating(images.dtype()) && images.numel() > 0 &&
            (images.size(1) == 1 || images.size(1) == 3),
        "image_grid: expected floating images (N, C, H, W), C 1 or 3, no size 0, got ",
        images.dtype(), " ", images.shape());
  constexpr int64_t most = 1 << 26, gap = 2;
  check(columns >= 1 && scale >= 1 && columns <= most && scale <= most,
        "image_grid: expected columns and scale from 1 to 2^26, got ", columns, " and ", scale);
  const int64_t n = images.size(0), channels = images.size(1), h = images.size(2),
                w = images.size(3);
  columns = std::min(columns, n);
  const int64_t rows = ceil_div(n, columns);
  const double high = static_cast<double>(rows) * static_cast<double>(h * scale + gap) - gap,
               wide = static_cast<double>(columns) * static_cast<double>(w * scale + gap) - gap;
  check(high * wide <= most, "image_grid: a picture of ", wide, " x ", high,
        " pixels is more than 2^26");
  ImageBytes grid{channels, rows * (h * scale + gap) - gap, columns * (w * scale + gap) - gap, {}};
  grid.bytes.assign(static_cast<size_t>(channels * grid.height * grid.width), 128);
  const Tensor x = images.detach().to(float32).contiguous();
  const float* from = x.data<float>();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t top = i / columns * (h * scale + gap), left = i % columns * (w * scale + gap);
      uint8_t* to = grid.bytes.data() + (c * grid.height + top) * grid.width + left;
      const float* plane = from + (i * channels + c) * h * w;
      for (int64_t y = 0; y < h * scale; ++y)
        for (int64_t k = 0; k < w * scale; ++k) {
          const float v = plane[y / scale * w + k / scale];
          to[y * grid.width + k] =
              v > 0 ? static_cast<uint8_t>(std::min(v, 1.0f) * 255 + 0.5f) : uint8_t{0};
        }
    }
  return grid;
}

ImageBytes image_grid(const std::vector<Tensor>& columns, int64_t scale) {
  check(!columns.empty(), "image_grid: expected at least one tensor");
  for (const Tensor& x : columns)
    check(x.rank() == 4 && x.shape() == columns[0].shape(),
          "image_grid: expected images (N, C, H, W) of one shape, got ", columns[0].shape(),
          " and ", x.shape());
  const NoGrad no_grad;
  return image_grid(stack(columns, 1).flatten(0, 1), std::ssize(columns), scale);
}

// ---- data sets ----

Tensor normalize(const Tensor& x, const ChannelStats& stats) {
  check_images("normalize", x, stats);
  if (stats.mean.empty()) return x;
  return (x - of_channels(stats.mean, x.dtype())) / of_channels(stats.std, x.dtype());
}

Tensor denormalize(const Tensor& x, const ChannelStats& stats) {
  check_images("denormalize", x, stats);
  if (stats.mean.empty()) return x;
  return x * of_channels(stats.std, x.dtype()) + of_channels(stats.mean, x.dtype());
}

ImageData::ImageData(const Shape& shape, std::vector<uint8_t> bytes, std::vector<int64_t> labels,
                     std::vector<std::string> class_names) {
  check(shape.size() == 4 && *std::min_element(shape.begin(), shape.end()) >= 0 && shape[1] >= 1 &&
            shape[2] >= 1 && shape[3] >= 1,
        "ImageData: expected images (N, C, H, W) of at least one pixel, got ", shape);
  check(std::ssize(bytes) == shape.numel(), "ImageData: ", bytes.size(), " bytes for shape ",
        shape);
  check(std::ssize(labels) == shape[0], "ImageData: ", shape[0], " images and ", labels.size(),
        " labels");
  for (size_t i = 0; i < labels.size(); ++i)
    check(labels[i] >= 0 && labels[i] < std::ssize(class_names), "ImageData: label ", labels[i],
          " of image ", i, " is outside [0, ", class_names.size(), ")");
  content_ = std::make_shared<const Content>(Content{
      {shape[1], shape[2], shape[3]}, std::move(bytes), std::move(labels), std::move(class_names)});
  count_ = shape[0];
}

Shape ImageData::shape() const {
  const Shape& image = content_->image;
  return {count_, image[0], image[1], image[2]};
}

void ImageData::check_id(int64_t id) const {
  check(id >= 0 && id < count_, "ImageData: image ", id, " is outside [0, ", count_, ")");
}

const uint8_t* ImageData::bytes_of(int64_t i) const {
  return content_->bytes.data() + (first_ + i) * content_->image.numel();
}

int64_t ImageData::label(int64_t i) const {
  check_id(i);
  return content_->labels[static_cast<size_t>(first_ + i)];
}

ImageBytes ImageData::image(int64_t i) const {
  check_id(i);
  const Shape& image = content_->image;
  return {image[0], image[1], image[2], {bytes_of(i), bytes_of(i) + image.numel()}};
}

ImageBatch ImageData::batch(const Tensor& ids, const ChannelStats& stats) const {
  check(ids.rank() == 1 && ids.dtype() == int64, "ImageData: expected ids (B) of int64, got ",
        ids.dtype(), " ", ids.shape());
  const Shape& image = content_->image;
  check_stats("ImageData", stats, image[0]);
  ImageBatch batch{{}, empty({ids.numel()}, int64), ids.detach().clone().contiguous()};
  const int64_t* id = batch.ids.data<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) batch.labels.data<int64_t>()[i] = label(id[i]);
  batch.images = empty({ids.numel(), image[0], image[1], image[2]});

  // table[c][byte] is the normalised value of a byte in channel c.
  std::vector<std::array<float, 256>> table(static_cast<size_t>(image[0]));
  for (size_t c = 0; c < table.size(); ++c)
    for (size_t value = 0; value < 256; ++value) {
      const float x = static_cast<float>(value) / 255;
      table[c][value] = stats.mean.empty() ? x
                                           : (x - static_cast<float>(stats.mean[c])) /
                                                 static_cast<float>(stats.std[c]);
    }
  const int64_t plane = image[1] * image[2], planes = ids.numel() * image[0];
  float* to = batch.images.data<float>();
  parallel_for(planes, 1 + 16384 / plane, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const uint8_t* from = bytes_of(id[p / image[0]]) + p % image[0] * plane;
      const float* value = table[static_cast<size_t>(p % image[0])].data();
      for (int64_t k = 0; k < plane; ++k) to[p * plane + k] = value[from[k]];
    }
  });
  return batch;
}

ImageBatch ImageData::range(int64_t first, int64_t count, const ChannelStats& stats) const {
  check(first >= 0 && first < count_ && count >= 1, "ImageData: expected 0 <= first < ", count_,
        " and count >= 1, got ", first, " and ", count);
  return batch(arange(std::min(count, count_ - first)) + static_cast<double>(first), stats);
}

ImageBatch ImageData::shuffled(int64_t batch, uint64_t seed, int64_t step,
                               const ChannelStats& stats, bool drop_last) const {
  constexpr int64_t max_rows = 1 << 20, max_steps = int64_t{1} << 40;
  check(count_ >= 1, "ImageData: no images");
  check(batch >= 1 && batch <= max_rows && step >= 0 && step < max_steps,
        "ImageData: expected a batch of 1 to 2^20 images and a step in [0, 2^40), got ", batch,
        " and ", step);
  check(!drop_last || batch <= count_, "ImageData: expected a batch of at most ", count_,
        " images, got ", batch);
  int64_t first = step * batch;
  if (drop_last) first += step / (count_ / batch) * (count_ % batch);
  const Tensor ids = empty({batch}, int64);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t position = first + i;
    ids.data<int64_t>()[i] = shuffled_index(count_, seed, position / count_, position % count_);
  }
  return this->batch(ids, stats);
}

ImageData ImageData::part(int64_t first, int64_t count) const {
  check(first >= 0 && count >= 0 && first <= count_ && count <= count_ - first,
        "ImageData: images [", first, ", ", first, " + ", count, ") are outside [0, ", count_, ")");
  ImageData part = *this;
  part.first_ += first;
  part.count_ = count;
  return part;
}

ChannelStats ImageData::stats() const {
  check(count_ >= 1, "ImageData: no images");
  const Shape& image = content_->image;
  const int64_t plane = image[1] * image[2];
  ChannelStats stats;
  for (int64_t c = 0; c < image[0]; ++c) {
    uint64_t sum = 0, squares = 0;  // exact
    for (int64_t i = 0; i < count_; ++i) {
      const uint8_t* x = bytes_of(i) + c * plane;
      sum += simd_sum<uint64_t>(plane, [=](int64_t k) { return uint64_t{x[k]}; });
      squares += simd_sum<uint64_t>(plane, [=](int64_t k) { return uint64_t{x[k]} * x[k]; });
    }
    const auto n = static_cast<double>(count_ * plane);
    const double mean = static_cast<double>(sum) / n,
                 variance = static_cast<double>(squares) / n - mean * mean;
    stats.mean.push_back(mean / 255);
    stats.std.push_back(variance > 1e-6 ? std::sqrt(variance) / 255 : 1);
  }
  return stats;
}

ImageSplit split_images(const ImageData& data, int64_t train) {
  check(train >= 1 && train < data.size(), "split_images: ", train, " of ", data.size(),
        " images leave none to train or none to test");
  return {data.part(0, train), data.part(train, data.size() - train)};
}

ImageSplit read_images(const std::string& source) {
  const size_t colon = std::min(source.find(':'), source.size());
  const std::string kind = source.substr(0, colon),
                    rest = source.substr(std::min(colon + 1, source.size()));
  if (kind == "mnist" && !rest.empty()) return read_mnist(rest);
  if (kind == "cifar10" && !rest.empty()) return read_cifar10(rest);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
  const bool whole = error == std::errc() && end == rest.data() + rest.size();
  check(kind == "shapes" && whole && n >= 2, "read_images: expected mnist:DIR, cifar10:DIR or ",
        "shapes:N of at least 2 images, got \"", source, "\"");
  return split_images(draw_shapes(0, n, {.max_shapes = 1}).images, n - ceil_div(n, 5));
}

}  // namespace gradus::models
