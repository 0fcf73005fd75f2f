#pragma once
// A temporary folder for the tests of training programs.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gradus/core/files/safetensors.h"
#include "tests/support/programs.h"

using Json = nlohmann::json;
using Rows = std::vector<std::vector<double>>;

/// A temporary folder that contains a text file, and flags for training on this file.
struct Bench : TemporaryFolder {
  std::string flags;
  explicit Bench(const std::string& text = sample_text()) {
    gradus::write_file_atomically(*this / "text.txt", text);
    flags = "--data '" + (*this / "text.txt") + "'" + small + " --seed 5";
  }
  std::string out(const std::string& name = "out") const {
    return " --out '" + (*this / name) + "'";
  }
  std::string file(const std::string& name) const { return gradus::read_file(*this / name); }
  /// Returns the contents of the files that a run has written to the folder `name`: checkpoint,
  /// models, tokenizers and logs. A missing file has the content "". Tests compare the contents
  /// before and after a run that fails, which must not change them.
  std::vector<std::string> run_files(const std::string& name = "out") const {
    std::vector<std::string> all;
    for (const char* f : {"checkpoint.safetensors", "model.safetensors", "config.json",
                          "tokenizer.json", "loss.csv", "steps.csv", "best/model.safetensors",
                          "best/config.json", "best/tokenizer.json"})
      all.push_back(has(name + '/' + f) ? file(name + '/' + f) : "");
    return all;
  }
  std::map<std::string, std::string> metadata(const std::string& name = "out") const {
    return gradus::load_safetensors(*this / (name + "/checkpoint.safetensors")).metadata;
  }
  int64_t checkpoint_step(const std::string& name = "out") const {
    return std::stoll(metadata(name).at("step"));
  }
  /// Returns the rows of a CSV file of numbers, without its header line. If `timed` is true, leaves
  /// out the last column, a time that differs between runs.
  Rows rows(const std::string& name, bool timed = false) const {
    std::istringstream lines(file(name));
    std::string line, cell;
    std::getline(lines, line);
    Rows rows;
    while (std::getline(lines, line)) {
      std::istringstream cells(line);
      rows.emplace_back();
      while (std::getline(cells, cell, ',')) rows.back().push_back(std::stod(cell));
      if (timed) rows.back().pop_back();
    }
    return rows;
  }
  /// Loads the checkpoint in the folder `out`, calls change(metadata) to modify its metadata in
  /// place, and saves it.
  template <class Change>
  void change_metadata(Change&& change) const {
    const std::string path = *this / "out/checkpoint.safetensors";
    gradus::SafetensorsFile checkpoint = gradus::load_safetensors(path);
    change(checkpoint.metadata);
    gradus::save_safetensors(path, checkpoint.tensors, checkpoint.metadata);
  }
  /// Rewrites the checkpoint in the folder `out` with all elements of the tensor `name` set to
  /// `number`.
  void fill_tensor(const std::string& name, float number) const {
    const std::string path = *this / "out/checkpoint.safetensors";
    const gradus::SafetensorsFile checkpoint = gradus::load_safetensors(path);
    for (const auto& [key, tensor] : checkpoint.tensors)
      if (key == name) std::fill_n(tensor.data<float>(), tensor.numel(), number);
    gradus::save_safetensors(path, checkpoint.tensors, checkpoint.metadata);
  }
  std::vector<std::string> names(const std::string& folder = "out") const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path / folder))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
};

inline bool one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1;
}
