#pragma once
// CIFAR-10: 32 x 32 photographs of ten kinds of things (Krizhevsky 2009, "Learning Multiple Layers of
// Features from Tiny Images").

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// CIFAR-10's binary version from a folder: data_batch_1.bin to data_batch_5.bin train,
/// test_batch.bin tests. A record is the label's byte and 3 x 32 x 32 bytes: red, green, blue.
/// Classes are named as batches.meta.txt says or, where it is not there, as the data set's authors
/// did. Throws Error naming the file, and the byte where it is damaged.
ImageSplit read_cifar10(const std::string& folder);

}  // namespace gradus::models
