#pragma once
// Reads IDX files, the format of MNIST and similar data sets (LeCun, Cortes, Burges, "The MNIST
// database").

#include <string>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Reads the bytes of an IDX file as a tensor with the shape stored in the file. The file must have
/// type 0x08 (unsigned bytes) and one to four axes. Values are from 0 to 255, not scaled. `dtype`
/// is float32, float64 or int64. Examples:
///   const Tensor images = read_idx("train-images-idx3-ubyte") / 255;          // (60000, 28, 28)
///   const Tensor labels = read_idx("train-labels-idx1-ubyte", int64);         // (60000)
/// gzip files are decompressed. If `path` does not exist, `path`.gz is read. On failure throws
/// Error, naming the file and, if it is damaged, the offset of the faulty byte (in the
/// decompressed content, unless decompression fails). Even if the header is damaged, allocates no
/// more values than a file of this size can hold.
Tensor read_idx(const std::string& path, Dtype dtype = float32);

/// Reads images (n, height, width) of one channel and labels (n) from two IDX files, plain or
/// compressed. Classes are named "0", "1", and so on. Throws the errors of read_idx. Also throws
/// Error unless 1 <= classes <= 256, on other shapes, if there are no images or no pixels, if the
/// numbers of images and labels differ, and on a label that is not below `classes`; in the last
/// case the message names the label's offset.
ImageData read_idx_images(const std::string& images, const std::string& labels,
                          int64_t classes = 10);

/// Reads MNIST, or a data set with the same file names (Fashion-MNIST, KMNIST), from a folder.
/// Training data are in train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz. Test
/// data are in files with t10k- instead of train-. If only one of these two pairs of files exists,
/// its first four fifths become the training data and the rest the test data: for example, t10k
/// alone gives 8,000 and 2,000 digits. Classes are named 0 to 9. Throws the errors of
/// read_idx_images. Also throws Error if neither pair exists, if training and test images differ in
/// size, or if only one pair exists and has fewer than two images.
ImageSplit read_mnist(const std::string& folder);

}  // namespace gradus::models
