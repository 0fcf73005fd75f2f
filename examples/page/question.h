#pragma once
#include <cstdint>
#include <string>

namespace gradus {

/// A question that the reader of a run's page asks about the model.
struct Question {
  std::string text = {};  ///< the text to read; empty: the program chooses one
  std::string target =
      {};           ///< for a translator: the target text; empty: the model's own translation
  int64_t at = -1;  ///< for a language model: index of the token after which to show the
                    ///< prediction; -1: the last
  int64_t run = 0;  ///< index of the run on a page of several runs
};

}  // namespace gradus
