#pragma once
// IDX files: the format of MNIST and its kin (LeCun, Cortes, Burges, "The MNIST database").

#include <string>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// The bytes of an IDX file (type 0x08, unsigned bytes; one to four axes) as a tensor of the file's
/// shape: numbers from 0 to 255, unscaled, in the dtype asked for.
///   const Tensor images = read_idx("train-images-idx3-ubyte") / 255;          // (60000, 28, 28)
///   const Tensor labels = read_idx("train-labels-idx1-ubyte", int64);         // (60000)
/// A file packed by gzip is unpacked as it is read; where `path` is not there, `path`.gz is taken.
/// Throws Error naming the file and the byte where it is damaged: nothing is set aside for what a
/// header asks for and the file does not (packed: cannot) hold.
Tensor read_idx(const std::string& path, Dtype dtype = float32);

/// Images (n, height, width) and labels (n) of two IDX files, plain or packed, as images of one
/// channel. Throws Error as read_idx does, if counts differ, and naming the byte of a label that
/// is not below `classes`.
ImageData read_idx_images(const std::string& images, const std::string& labels,
                          int64_t classes = 10);

/// MNIST, or what comes in files of its names (Fashion-MNIST, KMNIST), from a folder: of
/// train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz, those who train, and of t10k-
/// likewise those who test. Where there is only one of these pairs, its first four fifths train and
/// the last fifth tests: of t10k alone, 8,000 and 2,000 digits. Classes are named 0 to 9.
ImageSplit read_mnist(const std::string& folder);

}  // namespace gradus::models
