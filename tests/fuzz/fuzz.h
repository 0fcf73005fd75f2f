#pragma once
// Hostile input for everything that reads files or text: libFuzzer makes bytes, a target reads
// them. The target may accept them or throw Error with a readable message; anything else is a
// finding, and so is memory far beyond the size of the input.

#include <string>
#include <string_view>
#include <vector>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

namespace fuzz {

/// A named fuzzing target.
struct Target {
  const char* name;
  /// Initial inputs, written by the library itself.
  std::vector<std::string> (*seeds)();
  /// Reads the bytes; throws Error to refuse them.
  void (*run)(const std::string& bytes);
  /// Bytes of memory allowed per byte of input.
  size_t memory = 200;
};

/// Registers a target, for example `const fuzz::Register png{{"png", seeds, run}};`.
struct Register {
  explicit Register(const Target& target);
};

/// Path of the file `name` in a folder private to this process.
std::string path_of(const std::string& name);
/// Writes a file in path_of's folder and returns its path.
std::string write(const std::string& bytes, const std::string& name = "file");
/// Removes a file from path_of's folder, if it exists.
void remove(const std::string& name);
/// Content of the file that save(path) writes.
template <class Save>
std::string saved(Save&& save) {
  const std::string path = path_of("saved");
  save(path);
  return gradus::read_file(path);
}

/// Splits at the first n - 1 zero bytes into n pieces.
std::vector<std::string> split(std::string_view bytes, size_t n);
std::string join(const std::vector<std::string>& parts);

/// Unless `ok`, prints the finding and aborts the process.
void expect(bool ok, const std::string& finding);

/// Calls read(bytes) and, if that throws Error about a checksum, read(repair(bytes)), since hostile
/// files may have correct checksums.
template <class Repair, class Read>
void past_checksum(const std::string& bytes, Repair&& repair, Read&& read) {
  try {
    return read(bytes);
  } catch (const gradus::Error& e) {
    if (std::string_view(e.what()).find("checksum") == std::string_view::npos) throw;
  }
  read(repair(bytes));
}

/// A tokenizer.json of characters with byte fallback; `before`: its normalizer and pre_tokenizer.
std::string characters_tokenizer(const std::string& before);
/// What Llama 2 has there.
std::string llama2_spaces();

/// A safetensors file with its checksum corrected; unchanged if it has none.
std::string repair_safetensors(std::string bytes);

}  // namespace fuzz
