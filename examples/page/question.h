#pragma once
#include <cstdint>
#include <string>

namespace gradus {

/// A question about a model, asked by the reader of a run's web page.
struct Question {
  std::string text = {};  ///< the text for the model; empty: the program chooses one
  std::string target =
      {};           ///< target text, for translators only; empty: the model's own translation
  int64_t at = -1;  ///< show a GPT's prediction after the token with this index; -1: the last token
  int64_t run = 0;  ///< index of the run on a page of several runs
};

}  // namespace gradus
