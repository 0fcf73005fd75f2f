#pragma once
// IDX files: the format of MNIST and its relatives (LeCun, Cortes, Burges, "The MNIST database").

#include <string>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Reads the bytes of an IDX file (type 0x08, unsigned bytes; one to four axes) as a tensor of the
/// file's shape: values from 0 to 255, unscaled, in the given dtype.
///   const Tensor images = read_idx("train-images-idx3-ubyte") / 255;          // (60000, 28, 28)
///   const Tensor labels = read_idx("train-labels-idx1-ubyte", int64);         // (60000)
/// Decompresses gzip files; reads `path`.gz if `path` does not exist. Throws Error naming the file
/// and the byte where it is damaged. A damaged header cannot make it allocate more values than a
/// file of this size can hold.
Tensor read_idx(const std::string& path, Dtype dtype = float32);

/// Reads images (n, height, width) of one channel and labels (n) from two IDX files, plain or
/// compressed. Throws Error as read_idx does, if the numbers of images and labels differ, and,
/// naming the byte, on a label that is not below `classes`.
ImageData read_idx_images(const std::string& images, const std::string& labels,
                          int64_t classes = 10);

/// Reads MNIST, or a data set with the same file names (Fashion-MNIST, KMNIST), from a folder:
/// train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz, for training, and the same
/// two names with t10k- for testing. If only one of these pairs exists, its first four fifths
/// become the training data and the rest the test data: for t10k alone, 8,000 and 2,000 digits.
/// Classes are named 0 to 9.
ImageSplit read_mnist(const std::string& folder);

}  // namespace gradus::models
