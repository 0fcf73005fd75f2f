// The fuzzing program: fuzz --target=png CORPUS... -max_total_time=60, with libFuzzer's other
// options (https://llvm.org/docs/LibFuzzer.html). fuzz --targets lists the targets, and fuzz
// --target=png --seeds=DIR writes a target's seeds.

#include <sanitizer/allocator_interface.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gradus/core/files/checksum.h"
#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/tokenizers/utf8.h"
#include "tests/fuzz/fuzz.h"

// Huge allocations return null, as without a sanitizer: the library must report them.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace fuzz {

namespace {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

const Target* target = nullptr;
std::filesystem::path folder;

/// The bytes currently allocated, and their maximum.
std::atomic<int64_t> live{0}, most{0};
void on_malloc(const volatile void*, size_t n) {
  const int64_t now = live += static_cast<int64_t>(n);
  if (now > most) most = now;
}
void on_free(const volatile void* p) {
  if (p) live -= static_cast<int64_t>(__sanitizer_get_allocated_size(p));
}

/// Checks that a message is short, on one line and UTF-8.
void check_message(const std::string& message) {
  expect(message.size() < 1500, "a message of " + std::to_string(message.size()) + " bytes");
  for (const char c : message)
    expect(static_cast<unsigned char>(c) >= ' ' && c != 0x7f,
           "a control character in the message: " + message);
  for (size_t at = 0; at < message.size();) {
    char32_t code_point;
    expect(gradus::models::internal::read_code_point(message, at, code_point),
           "a message that is not UTF-8: " + message);
  }
}

void write_seeds(const std::string& to) {
  std::filesystem::create_directories(to);
  const std::vector<std::string> seeds = target->seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    try {
      target->run(seeds[i]);
    } catch (const gradus::Error& e) {
      expect(false, std::string("a seed is refused: ") + e.what());
    }
    gradus::write_file_atomically(to + "/seed" + std::to_string(i), seeds[i]);
  }
}

}  // namespace

Register::Register(const Target& t) { targets().push_back(t); }

std::string path_of(const std::string& name) { return (folder / name).string(); }

std::string write(const std::string& bytes, const std::string& name) {
  const std::string path = path_of(name);
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  expect(out.good(), "cannot write " + path);
  return path;
}

void remove(const std::string& name) { std::filesystem::remove(path_of(name)); }

std::vector<std::string> split(std::string_view bytes, size_t n) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < n) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    parts.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  parts.emplace_back(bytes);
  return parts;
}

std::string join(const std::vector<std::string>& parts) {
  std::string bytes;
  for (size_t i = 0; i < parts.size(); ++i) bytes += (i ? std::string(1, '\0') : "") + parts[i];
  return bytes;
}

void expect(bool ok, const std::string& finding) {
  if (ok) return;
  std::fprintf(stderr, "FINDING in %s: %s\n", target ? target->name : "?", finding.c_str());
  std::abort();
}

std::string repair_safetensors(std::string bytes) {
  using namespace gradus::internal;
  uint64_t length = 0;
  if (bytes.size() < 8) return bytes;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) return bytes;
  nlohmann::json header = parse_json("the header", bytes.substr(8, length));
  if (!header.is_object()) return bytes;
  auto& metadata = header["__metadata__"];
  if (!metadata.is_object() || !metadata.contains("gradus.checksum") ||
      !metadata["gradus.checksum"].is_string())
    return bytes;
  const std::string given = metadata["gradus.checksum"];
  metadata.erase("gradus.checksum");
  const std::string text = header.dump(), data = bytes.substr(8 + length);
  // Adds the header, then each tensor's data, as the library does (in pieces of 2^18 bytes; the
  // tensors of small files have one).
  Checksum checksum;
  checksum.add(text.data(), text.size());
  std::vector<std::pair<uint64_t, uint64_t>> tensors;
  try {
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") tensors.push_back(entry.at("data_offsets"));
  } catch (const nlohmann::json::exception&) {
    return bytes;  // the file is wrong in more than its checksum
  }
  std::sort(tensors.begin(), tensors.end());
  for (const auto& [begin, end] : tensors) {
    if (begin > end || end > data.size()) return bytes;
    checksum.add(data.data() + begin, end - begin);
  }
  const size_t at = bytes.find(given, 8);
  if (at != std::string::npos && given.size() == 16) bytes.replace(at, 16, checksum.digits());
  return bytes;
}

namespace {

/// Value of --name=value among the arguments.
std::string option(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i)
    if (const std::string given = argv[i]; given.starts_with("--" + name + "="))
      return given.substr(name.size() + 3);
  return "";
}

int usage(const std::string& wrong) {
  std::fprintf(stderr, "fuzz: %s\n", wrong.c_str());
  return 2;
}

int initialize(int argc, char** argv) {
  auto& all = targets();
  std::sort(all.begin(), all.end(),
            [](const Target& a, const Target& b) { return std::string_view(a.name) < b.name; });
  if (argc == 2 && std::string_view(argv[1]) == "--targets") {
    for (const Target& t : all) std::puts(t.name);
    std::exit(0);
  }
  const std::string name = option(argc, argv, "target");
  for (const Target& t : all)
    if (t.name == name) target = &t;
  if (!target) std::exit(usage("expected --target=NAME, one of fuzz --targets"));
  gradus::set_num_threads(1);
  std::string made = (std::filesystem::temp_directory_path() / "gradus-fuzz-XXXXXX").string();
  expect(::mkdtemp(made.data()) != nullptr, "cannot make " + made);
  folder = made;
  std::atexit([] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
  if (const std::string to = option(argc, argv, "seeds"); !to.empty()) {
    write_seeds(to);
    std::exit(0);
  }
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  return 0;
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  return fuzz::initialize(*argc, *argv);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fuzz;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const int64_t before = live;
  most = before;
  try {
    target->run(bytes);
  } catch (const gradus::Error& e) {
    check_message(e.what());
  } catch (const std::exception& e) {
    expect(false, std::string("an exception of another type: ") + e.what());
  }
  constexpr int64_t always = 8 << 20;  // such as read_file's first piece
  const int64_t taken = most - before, may = always + static_cast<int64_t>(target->memory * size);
  expect(taken <= may,
         std::to_string(taken) + " bytes of memory for " + std::to_string(size) + " of input");
  return 0;
}
