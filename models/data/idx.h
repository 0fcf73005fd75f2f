#pragma once
// IDX files: the format of MNIST and its kin (LeCun, Cortes, Burges, "The MNIST database").

#include <string>

#include "gradus/core/tensor.h"

namespace gradus::models {

/// The bytes of an IDX file (type 0x08, unsigned bytes; one to four axes) as a tensor of the file's
/// shape: numbers from 0 to 255, unscaled, in the dtype asked for.
///   const Tensor images = read_idx("train-images-idx3-ubyte") / 255;          // (60000, 28, 28)
///   const Tensor labels = read_idx("train-labels-idx1-ubyte", int64);         // (60000)
/// Throws Error naming the file and the byte where it is damaged: nothing is set aside for what a
/// header asks for and the file does not hold. Compressed files are to be unpacked first (gunzip).
Tensor read_idx(const std::string& path, Dtype dtype = float32);

}  // namespace gradus::models
