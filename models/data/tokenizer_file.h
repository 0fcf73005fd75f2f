#pragma once
// What tokenizers' files have in common. For the library's own use: no public header includes this.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gradus::models::detail {

/// A tokenizer's file, read: a JSON object.
struct TokenizerFile {
  const nlohmann::json& root;
  /// Throws Error unless this is the file's "type".
  void check_type(const char* type) const;
  /// root[key], an array of strings, which may be missing or empty unless it is required. Throws
  /// Error, saying what they are ("words"), on anything else.
  std::vector<std::string> strings(const char* key, const char* what, bool required) const;
};

/// Calls use(file). Errors open with `op` and the path.
void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use);

/// Throws decode's Error on an id outside [0, vocab_size).
void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size);

}  // namespace gradus::models::detail
