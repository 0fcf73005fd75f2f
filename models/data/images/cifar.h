#pragma once
// Reads CIFAR-10: 32 x 32 photographs in ten classes (Krizhevsky 2009, "Learning Multiple Layers of
// Features from Tiny Images").

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Returns CIFAR-10, read from a folder with its binary version: data_batch_1.bin to
/// data_batch_5.bin for training, and test_batch.bin for testing. Each record in these files is a
/// label byte and 3 x 32 x 32 bytes: first all red values, then green, then blue. The class names
/// come from batches.meta.txt; without this file, they are the usual names, from airplane to truck.
/// Throws Error if a .bin file is missing or a file is invalid. The message names the file. For a
/// label out of range or an incomplete record, it also gives the offset.
ImageSplit read_cifar10(const std::string& folder);

}  // namespace gradus::models
