#pragma once
// Images with labels, kept as bytes, and what becomes of them: batches and pictures.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

// ---- pictures ----

/// One picture: a byte for each channel of each pixel, in the order of a tensor (C, H, W).
struct ImageBytes {
  int64_t channels = 0, height = 0, width = 0;  ///< in pixels, the last two
  std::vector<uint8_t> bytes;                   ///< channels height width of them
  bool operator==(const ImageBytes&) const = default;
};

/// (C, H, W) float32 in [0, 1]: each byte / 255.
Tensor to_tensor(const ImageBytes& image);

/// Images (N, C, H, W) of numbers from 0 to 1 as one picture: `columns` in a row, each pixel a
/// square of `scale`, two grey pixels between images. C is 1 or 3; what is outside [0, 1] is
/// clamped, NaN becomes 0. Throws Error on other shapes and dtypes, and on more than 2^26 pixels.
ImageBytes image_grid(const Tensor& images, int64_t columns, int64_t scale = 1);
/// Row i: image i of each of the tensors, which are of one shape, side by side.
///   write_png("mae.png", image_grid({original, masked, reconstructed}, 4));
ImageBytes image_grid(const std::vector<Tensor>& columns, int64_t scale = 1);

// ---- data sets ----

/// The mean and the standard deviation of each channel, of numbers from 0 to 1.
struct ChannelStats {
  std::vector<double> mean, std;  ///< one a channel
};

/// (x - mean) / std, each channel of x (N, C, H, W) by its own numbers. Without numbers x itself.
/// Throws Error unless there are C of each and all are finite and each std above 0.
Tensor normalize(const Tensor& x, const ChannelStats& stats);
/// x std + mean: back again.
Tensor denormalize(const Tensor& x, const ChannelStats& stats);

/// Some images with their labels.
struct ImageBatch {
  Tensor images;  ///< (B, C, H, W) float32
  Tensor labels;  ///< (B) int64
  Tensor ids;     ///< (B) int64: the images' places in their data
};

/// N images of C channels, H x W, and what each shows: one byte for a number, whatever the data set.
/// A copy, and a part, share the bytes. All methods may be called by several threads at once.
class ImageData {
 public:
  /// `shape` (N, C, H, W), `bytes` in this order, N labels from 0 to class_names.size() - 1. Throws
  /// Error if numbers differ or a label is out of range, naming the image.
  ImageData(const Shape& shape, std::vector<uint8_t> bytes, std::vector<int64_t> labels,
            std::vector<std::string> class_names);

  int64_t size() const { return count_; }  ///< how many images
  /// (N, C, H, W).
  Shape shape() const;
  const std::vector<std::string>& class_names() const {
    return content_->class_names;
  }                                                                      ///< in the order of labels
  int64_t classes() const { return std::ssize(content_->class_names); }  ///< how many
  /// What image i shows. Throws Error if there is no such image, as image() does.
  int64_t label(int64_t i) const;
  /// Image i as it came, in bytes. Throws Error if there is no such image.
  ImageBytes image(int64_t i) const;

  /// The images that `ids` lists, int64 (B): (x / 255 - mean) / std, without stats x / 255. Throws
  /// Error on an id that is not there, and on stats as normalize does.
  ImageBatch batch(const Tensor& ids, const ChannelStats& stats = {}) const;
  /// Images first, first + 1, ..., at most `count` of them.
  ImageBatch range(int64_t first, int64_t count, const ChannelStats& stats = {}) const;
  /// The step-th batch of a run through epochs that follow each other: each image once an epoch, in
  /// an order of the seed's and the epoch's own; a batch may end one epoch and begin the next. A
  /// function of its arguments alone, and so fit for Prefetch and for runs that are resumed.
  ImageBatch shuffled(int64_t batch, uint64_t seed, int64_t step,
                      const ChannelStats& stats = {}) const;

  /// Images first ... first + count - 1 as data of their own, with ids from 0. Throws Error if they
  /// are not there.
  ImageData part(int64_t first, int64_t count) const;
  /// Of all images. A channel of one colour gets std 1.
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

/// What trains a model, and what says how good it is: no image is in both.
struct ImageSplit {
  ImageData train, test;  ///< to learn from, to be tested with
};

/// The first `train` images, and the rest. Throws Error unless both have one.
ImageSplit split_images(const ImageData& data, int64_t train);

/// Images by name: "mnist:DIR" (read_mnist), "cifar10:DIR" (read_cifar10), or "shapes:N", N drawn
/// images of one shape each (draw_shapes), of which the last fifth tests. Throws Error on others.
ImageSplit read_images(const std::string& source);

}  // namespace gradus::models
