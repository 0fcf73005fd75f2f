#pragma once
// Hostile input for everything that reads files or text: libFuzzer makes bytes, a target reads them. It
// may take them or throw Error, with a message for a person; whatever else happens is a finding. So
// is memory set aside far beyond the bytes' number.

#include <string>
#include <string_view>
#include <vector>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

namespace fuzz {

/// What is fuzzed under a name.
struct Target {
  const char* name;
  /// Inputs to begin with, which the library itself writes.
  std::vector<std::string> (*seeds)();
  /// Reads the bytes; throws Error if they are refused.
  void (*run)(const std::string& bytes);
  /// The bytes of memory that one of input may take.
  size_t memory = 200;
};

/// Makes a target known: `const fuzz::Register png{{"png", seeds, run}};`.
struct Register {
  explicit Register(const Target& target);
};

/// The path of that name in a folder of this process's own.
std::string path_of(const std::string& name);
/// Writes a file there, and returns its path.
std::string write(const std::string& bytes, const std::string& name = "file");
/// Removes a file there, if it is.
void remove(const std::string& name);
/// What `save`, given a path, writes there.
template <class Save>
std::string saved(Save&& save) {
  const std::string path = path_of("saved");
  save(path);
  return gradus::read_file(path);
}

/// The first n - 1 pieces that end before a zero byte, and all the rest.
std::vector<std::string> split(std::string_view bytes, size_t n);
std::string join(const std::vector<std::string>& parts);

/// Ends the process with this finding unless `ok`.
void expect(bool ok, const std::string& finding);

/// Calls read(bytes). Where it throws Error that speaks of a checksum, calls read(repair(bytes)):
/// who writes hostile files writes checksums that are right.
template <class Repair, class Read>
void past_checksum(const std::string& bytes, Repair&& repair, Read&& read) {
  try {
    return read(bytes);
  } catch (const gradus::Error& e) {
    if (std::string_view(e.what()).find("checksum") == std::string_view::npos) throw;
  }
  read(repair(bytes));
}

/// A safetensors file with the checksum that its content has; as it was if it has none.
std::string repair_safetensors(std::string bytes);

}  // namespace fuzz
