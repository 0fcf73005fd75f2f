#pragma once
// Fuzzes the functions that read files or text. libFuzzer generates bytes, and a target reads them.
// The target may accept the bytes or throw Error with a readable message. Any other outcome is a
// finding, and so is memory use far beyond the size of the input.

#include <string>
#include <string_view>
#include <vector>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

namespace fuzz {

/// A named fuzzing target.
struct Target {
  const char* name;
  /// Returns initial inputs, all of which the target accepts.
  std::vector<std::string> (*seeds)();
  /// Reads the bytes. Throws Error to reject them.
  void (*run)(const std::string& bytes);
  /// Allowed bytes of memory per byte of input, in addition to 8 MiB.
  size_t memory = 200;
};

/// Registers a target, for example `const fuzz::Register png{{"png", seeds, run}};`.
struct Register {
  explicit Register(const Target& target);
};

/// Returns the path of the file `name` in a folder that only this process uses.
std::string path_of(const std::string& name);
/// Writes a file in the folder of path_of() and returns its path.
std::string write(const std::string& bytes, const std::string& name = "file");
/// Removes a file from the folder of path_of(), if it exists.
void remove(const std::string& name);
/// Returns the content of the file that save(path) writes.
template <class Save>
std::string saved(Save&& save) {
  const std::string path = path_of("saved");
  save(path);
  return gradus::read_file(path);
}

/// Splits `bytes` at the first n - 1 NUL bytes into n pieces. With fewer NUL bytes, the last pieces
/// are empty.
std::vector<std::string> split(std::string_view bytes, size_t n);
std::string join(const std::vector<std::string>& parts);

/// If `ok` is false, prints the finding and aborts the process.
void expect(bool ok, const std::string& finding);

/// Calls read(bytes). If this call throws an Error about a checksum, calls read(repair(bytes)), so
/// that the code after the comparison of checksums is fuzzed too.
template <class Repair, class Read>
void past_checksum(const std::string& bytes, Repair&& repair, Read&& read) {
  try {
    return read(bytes);
  } catch (const gradus::Error& e) {
    if (std::string_view(e.what()).find("checksum") == std::string_view::npos) throw;
  }
  read(repair(bytes));
}

/// Returns a tokenizer.json for a small BPE tokenizer with byte fallback. `before` contains the
/// file's entries "normalizer" and "pre_tokenizer", each with a comma after it.
std::string characters_tokenizer(const std::string& before);
/// Returns the entries "normalizer" and "pre_tokenizer" of Llama 2's tokenizer.json, each with a
/// comma after it.
std::string llama2_spaces();

/// Returns `bytes`, a safetensors file, with a correct checksum. Returns them unchanged if the file
/// has no checksum of 16 characters, or if its sizes or offsets are wrong. Throws Error if the
/// header is not JSON.
std::string repair_safetensors(std::string bytes);

}  // namespace fuzz
