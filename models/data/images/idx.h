#pragma once
// Reads IDX files, the format of MNIST and similar data sets (LeCun, Cortes, Burges, "The MNIST
// database").

#include <string>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Returns the content of an IDX file as a tensor with the shape stored in the file. The file must
/// have type 0x08 (unsigned bytes) and one to four axes. The values are integers from 0 to 255;
/// `dtype` must be float32, float64 or int64. Examples:
///   const Tensor images = read_idx("train-images-idx3-ubyte") / 255;          // (60000, 28, 28)
///   const Tensor labels = read_idx("train-labels-idx1-ubyte", int64);         // (60000)
/// Decompresses gzip files. If `path` does not exist, reads `path`.gz. Throws Error, naming the
/// file, if the file cannot be read or is damaged. The message about a damaged file also gives the
/// offset of the faulty byte: in the compressed file if decompression fails, otherwise in the
/// decompressed content. A damaged header never causes an allocation of more values than a file of
/// this size can hold.
Tensor read_idx(const std::string& path, Dtype dtype = float32);

/// Returns a data set of one-channel images, read from two IDX files: images (n, height, width) and
/// labels (n). The files may be compressed with gzip. The classes are named "0", "1", and so on.
/// Throws the errors of read_idx. Also throws Error if `classes` is outside [1, 256], if a file has
/// another shape, if there are no images or no pixels, or if the numbers of images and labels
/// differ. Also throws Error, naming the label's offset, if a label is not below `classes`.
ImageData read_idx_images(const std::string& images, const std::string& labels,
                          int64_t classes = 10);

/// Returns MNIST, or a data set with the same file names (Fashion-MNIST, KMNIST), read from a
/// folder. Training data are in train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz.
/// Test data are in t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, likewise. If only one of
/// these two pairs of files exists, its first four fifths become the training data and the rest the
/// test data. For example, the t10k files alone give 8,000 and 2,000 digits. The classes are named
/// "0" to "9".
///
/// Throws the errors of read_idx_images. Also throws Error if neither pair exists, if training and
/// test images differ in size, or if only one pair exists and has fewer than two images.
ImageSplit read_mnist(const std::string& folder);

}  // namespace gradus::models
