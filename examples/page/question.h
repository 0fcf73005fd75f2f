#pragma once
#include <cstdint>
#include <string>

namespace gradus {

/// What the reader of a run's page asks of the model.
struct Question {
  std::string text = {};  ///< to read; empty: one of the validation part's
  std::string target =
      {};           ///< of a translator: the target text; empty: the model's own translation
  int64_t at = -1;  ///< of a language model: the token whose prediction is shown; -1: the last
};

}  // namespace gradus
