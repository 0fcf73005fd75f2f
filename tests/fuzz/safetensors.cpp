#include "gradus/core/core.h"
#include "tests/fuzz/fuzz.h"

namespace safetensors_fuzz {

using namespace gradus;

namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  const NamedTensors tensors{{"a", tensor({{1, -2, 3}})},
                             {"b", eye(2, boolean)},
                             {"c", arange(5)},
                             {"d", zeros({2, 0, 3}, float64)}};
  all.push_back(fuzz::saved([&](const std::string& path) {
    save_safetensors(path, tensors, {{"step", "12"}});
  }));
  all.push_back(fuzz::saved([&](const std::string& path) { save_safetensors(path, {}); }));
  // Files as other programs write them, one per type.
  for (const auto& [type, size] : std::vector<std::pair<std::string, int>>{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U64", 8},
                                                                           {"U32", 4},
                                                                           {"U16", 2},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1}}) {
    const std::string header = "{\"x\":{\"dtype\":\"" + type +
                               "\",\"shape\":[3],\"data_offsets\":[0," + std::to_string(3 * size) +
                               "]}}";
    all.push_back(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header +
                  std::string(static_cast<size_t>(3 * size), '\1'));
  }
  return all;
}

/// Checks that saving and loading again gives the same tensors.
void run(const std::string& bytes) {
  fuzz::past_checksum(bytes, fuzz::repair_safetensors, [](const std::string& file) {
    const SafetensorsFile read = load_safetensors(fuzz::write(file));
    const std::string path = fuzz::path_of("again");
    save_safetensors(path, read.tensors, read.metadata);
    const SafetensorsFile again = load_safetensors(path);
    fuzz::expect(again.metadata == read.metadata, "other metadata");
    fuzz::expect(again.tensors.size() == read.tensors.size(), "other tensors");
  });
}

const fuzz::Register target{{"safetensors", seeds, run, 400}};

}  // namespace

}  // namespace safetensors_fuzz
