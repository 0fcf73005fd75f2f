#pragma once
// Pictures stored as bytes, grids of images, and data sets of labelled images.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

// ---- pictures ----

/// One picture, with one byte per channel and pixel. The bytes are those of a contiguous tensor
/// (C, H, W).
struct ImageBytes {
  int64_t channels = 0, height = 0, width = 0;  ///< height and width in pixels
  std::vector<uint8_t> bytes;                   ///< channels * height * width bytes
  bool operator==(const ImageBytes&) const = default;
};

/// Returns the picture as a tensor (C, H, W) float32 with the values byte / 255. Throws Error
/// unless the picture has channels * height * width bytes.
Tensor to_tensor(const ImageBytes& image);

/// Returns one picture that shows floating-point images (N, C, H, W) in rows of `columns` images
/// (or N, if that is fewer). C must be 1 or 3. Values are clamped to [0, 1], and NaN becomes 0.
/// Each pixel becomes a square of scale x scale pixels. Gaps of two grey pixels separate the
/// images. Throws Error if the images have another shape or dtype or no elements, if `columns` or
/// `scale` is outside [1, 2^26], or if the picture would have more than 2^26 pixels.
ImageBytes image_grid(const Tensor& images, int64_t columns, int64_t scale = 1);
/// Returns one picture that shows several tensors of images side by side: column k shows
/// columns[k], and row i shows image i of each tensor. Throws Error if there is no tensor or if
/// shapes or dtypes differ. Also throws the errors of image_grid for one tensor. Example:
///   write_png("mae.png", image_grid({original, masked, reconstructed}, 4));
ImageBytes image_grid(const std::vector<Tensor>& columns, int64_t scale = 1);

// ---- data sets ----

/// The mean and standard deviation of each channel, for values from 0 to 1.
struct ChannelStats {
  std::vector<double> mean, std;  ///< one per channel
};

/// Returns (x - mean) / std for each channel of floating-point images x (N, C, H, W), or x if
/// `stats` is empty. Throws Error if x has another shape or dtype. Also throws Error unless `stats`
/// is empty or has, for each of the C channels, a finite mean and a finite std above 0.
Tensor normalize(const Tensor& x, const ChannelStats& stats);
/// Returns x * std + mean for each channel of x: the inverse of normalize. Throws the same errors.
Tensor denormalize(const Tensor& x, const ChannelStats& stats);

/// A batch of images with their labels.
struct ImageBatch {
  Tensor images;  ///< (B, C, H, W) float32
  Tensor labels;  ///< (B) int64
  Tensor ids;     ///< (B) int64: indices of the images in their data set
};

/// A data set of N labelled images (C, H, W), one byte per value. Copies and the results of part()
/// share its bytes. All methods may be called by several threads at once.
class ImageData {
 public:
  /// Creates a data set of N images. `bytes` are the elements of a contiguous tensor of `shape`
  /// (N, C, H, W). Each of the N labels is an index into class_names. Throws Error if the sizes do
  /// not match, if C, H or W is 0, or if a label is out of range. The message about a label names
  /// the image.
  ImageData(const Shape& shape, std::vector<uint8_t> bytes, std::vector<int64_t> labels,
            std::vector<std::string> class_names);
  // Moving an ImageData copies it, so the moved-from object keeps its images.
  ImageData(const ImageData&) = default;
  ImageData& operator=(const ImageData&) = default;

  int64_t size() const { return count_; }  ///< number of images
  /// Returns (N, C, H, W).
  Shape shape() const;
  /// Returns the name of each class, indexed by label.
  const std::vector<std::string>& class_names() const { return content_->class_names; }
  int64_t classes() const { return std::ssize(content_->class_names); }  ///< number of classes
  /// Returns the label of image i. Throws Error if there is no such image.
  int64_t label(int64_t i) const;
  /// Returns the bytes of image i. Throws Error if there is no such image.
  ImageBytes image(int64_t i) const;

  /// Returns the images with these ids, (B) int64, and their labels. Pixel values are x = byte/255.
  /// Unless `stats` is empty, each channel is then normalised to (x - mean) / std. Throws Error if
  /// `ids` has another rank or dtype, if an id is out of range, or if `stats` does not fit the
  /// images.
  ImageBatch batch(const Tensor& ids, const ChannelStats& stats = {}) const;
  /// Returns up to `count` consecutive images as a batch, beginning with image `first`, and
  /// normalises them with `stats` unless it is empty. Throws Error if image `first` does not exist,
  /// if count < 1, or if `stats` does not fit the images.
  ImageBatch range(int64_t first, int64_t count, const ChannelStats& stats = {}) const;
  /// Returns batch number `step`, counted from 0 across all epochs. Each batch contains `batch`
  /// images. Each epoch contains every image once, in an order determined by the seed and the
  /// epoch. A batch may span several epochs. With `drop_last`, each batch lies in one epoch and
  /// contains no image twice; an epoch then leaves out its last images if they do not fill a batch.
  /// The result depends only on the arguments, so a resumed run sees the same batches as an
  /// uninterrupted run. Throws Error unless 1 <= batch <= 2^20 and 0 <= step < 2^40. Also throws
  /// Error if there are no images, if `drop_last` is true and there are fewer than `batch` images,
  /// or if `stats` does not fit the images.
  ImageBatch shuffled(int64_t batch, uint64_t seed, int64_t step, const ChannelStats& stats = {},
                      bool drop_last = false) const;

  /// Returns a data set of `count` consecutive images, beginning with image `first`. In the new
  /// data set, ids begin at 0. Throws Error unless all these images exist.
  ImageData part(int64_t first, int64_t count) const;
  /// Returns the mean and standard deviation of each channel over all images. A channel whose
  /// standard deviation is at most 0.001 / 255 gets std 1. Throws Error if there are no images.
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

/// A data set for training and one for testing.
struct ImageSplit {
  ImageData train, test;  ///< the two data sets
};

/// Returns the first `train` images as training data and the remaining images as test data. Throws
/// Error if either set would be empty.
ImageSplit split_images(const ImageData& data, int64_t train);

/// Returns the data set with the name `source`:
///   "mnist:DIR"    MNIST, read by read_mnist from the folder DIR
///   "cifar10:DIR"  CIFAR-10, read by read_cifar10 from the folder DIR
///   "shapes:N"     N images from draw_shapes, each with one shape; the last fifth, rounded up, is
///                  for testing
/// Throws Error if `source` has another form or if N < 2. Also throws the errors of read_mnist,
/// read_cifar10 or draw_shapes.
ImageSplit read_images(const std::string& source);

}  // namespace gradus::models
