#pragma once
#include <string>

namespace gradus {

/// The library's own source text, rooms and files in alphabetical order: something to train on
/// without a download. Throws Error if the source tree that this program was built in is gone.
std::string source_text();

}  // namespace gradus
