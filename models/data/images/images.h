#pragma once
// Labelled images, stored as bytes; batches and pictures of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

// ---- pictures ----

/// One picture: one byte per channel and pixel, in the order of a tensor (C, H, W).
struct ImageBytes {
  int64_t channels = 0, height = 0, width = 0;  ///< height and width in pixels
  std::vector<uint8_t> bytes;                   ///< channels * height * width of them
  bool operator==(const ImageBytes&) const = default;
};

/// Converts to (C, H, W) float32 in [0, 1]: each byte / 255.
Tensor to_tensor(const ImageBytes& image);

/// Arranges images (N, C, H, W) with values from 0 to 1 in one picture, `columns` per row, two grey
/// pixels between images; each pixel is enlarged to scale x scale. C is 1 or 3; values are clamped
/// to [0, 1], NaN becomes 0. Throws Error on other shapes and dtypes, and on more than 2^26 pixels.
ImageBytes image_grid(const Tensor& images, int64_t columns, int64_t scale = 1);
/// Arranges several tensors of one shape: row i is image i of each, side by side.
///   write_png("mae.png", image_grid({original, masked, reconstructed}, 4));
ImageBytes image_grid(const std::vector<Tensor>& columns, int64_t scale = 1);

// ---- data sets ----

/// Mean and standard deviation of each channel, for values from 0 to 1.
struct ChannelStats {
  std::vector<double> mean, std;  ///< one per channel
};

/// (x - mean) / std per channel of x (N, C, H, W); x itself if stats are empty. Throws Error unless
/// there are C means and C stds, all finite, and each std is above 0.
Tensor normalize(const Tensor& x, const ChannelStats& stats);
/// Inverse of normalize: x std + mean.
Tensor denormalize(const Tensor& x, const ChannelStats& stats);

/// A batch of images with their labels.
struct ImageBatch {
  Tensor images;  ///< (B, C, H, W) float32
  Tensor labels;  ///< (B) int64
  Tensor ids;     ///< (B) int64: indices of the images in their data set
};

/// A data set of N labelled images (C, H, W), one byte per value. Copies and parts share their
/// bytes with it. Thread-safe: all methods may be called concurrently.
class ImageData {
 public:
  /// `bytes` holds the values of a contiguous tensor of `shape` (N, C, H, W); each of the N labels
  /// is an index into class_names. Throws Error if sizes differ or, naming the image, if a label is
  /// out of range.
  ImageData(const Shape& shape, std::vector<uint8_t> bytes, std::vector<int64_t> labels,
            std::vector<std::string> class_names);

  int64_t size() const { return count_; }  ///< number of images
  /// (N, C, H, W).
  Shape shape() const;
  /// Name of each class, indexed by label.
  const std::vector<std::string>& class_names() const { return content_->class_names; }
  int64_t classes() const { return std::ssize(content_->class_names); }  ///< number of classes
  /// Label of image i. Throws Error if there is no such image.
  int64_t label(int64_t i) const;
  /// Bytes of image i. Throws Error if there is no such image.
  ImageBytes image(int64_t i) const;

  /// The images with these ids, (B) int64, as (x / 255 - mean) / std, or x / 255 without stats.
  /// Throws Error on an id out of range, and on stats as normalize does.
  ImageBatch batch(const Tensor& ids, const ChannelStats& stats = {}) const;
  /// Images first, first + 1, ..., at most `count` of them.
  ImageBatch range(int64_t first, int64_t count, const ChannelStats& stats = {}) const;
  /// Batch number `step` of a run of consecutive epochs: each epoch takes every image once, in an
  /// order determined by the seed and the epoch; a batch may span two epochs. A pure function of
  /// its arguments, so it suits Prefetch and resumed runs.
  ImageBatch shuffled(int64_t batch, uint64_t seed, int64_t step,
                      const ChannelStats& stats = {}) const;

  /// Images first ... first + count - 1 as a data set, with ids from 0. Throws Error if they are
  /// out of range.
  ImageData part(int64_t first, int64_t count) const;
  /// Mean and standard deviation of each channel over all images. A constant channel gets std 1.
  ChannelStats stats() const;

 private:
  struct Content {
    Shape image;  // (C, H, W)
    std::vector<uint8_t> bytes;
    std::vector<int64_t> labels;
    std::vector<std::string> class_names;
  };
  void check_id(int64_t id) const;
  const uint8_t* bytes_of(int64_t i) const;

  std::shared_ptr<const Content> content_;
  int64_t first_ = 0, count_ = 0;
};

/// Training and test data; no image is in both.
struct ImageSplit {
  ImageData train, test;  ///< the two data sets
};

/// Splits the data into the first `train` images and the rest. Throws Error if either is empty.
ImageSplit split_images(const ImageData& data, int64_t train);

/// Reads images by name: "mnist:DIR" (read_mnist), "cifar10:DIR" (read_cifar10), or "shapes:N", N
/// images of one shape each from draw_shapes, the last fifth for testing. Throws Error on other
/// names.
ImageSplit read_images(const std::string& source);

}  // namespace gradus::models
