#pragma once
// Reads CIFAR-10: 32 x 32 photographs in ten classes (Krizhevsky 2009, "Learning Multiple Layers of
// Features from Tiny Images").

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Reads CIFAR-10's binary version from a folder: data_batch_1.bin to data_batch_5.bin for
/// training, and test_batch.bin for testing. A record is a label byte and 3 x 32 x 32 bytes: red,
/// green, blue. Class names come from batches.meta.txt. If that file is missing, they are the usual
/// names, from airplane to truck. Throws Error if a .bin file is missing or a file is invalid. The
/// message names the file and, for a label out of range or an incomplete record, its offset.
ImageSplit read_cifar10(const std::string& folder);

}  // namespace gradus::models
