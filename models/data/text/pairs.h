#pragma once
// Pairs of texts: a sentence and its translation, a question and its answer.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// A text and what is to be made of it.
struct TextPair {
  std::string source, target;  ///< UTF-8
  bool operator==(const TextPair&) const = default;
};

struct ReadPairsOptions {
  bool skip_bad = false;  ///< leaves bad lines out and counts them, rather than throwing Error
};

/// What read_pairs found.
struct PairFile {
  std::vector<TextPair> pairs;  ///< in the order of the file
  int64_t lines = 0;            ///< of the file, bad ones too
  /// Lines that were left out for one reason.
  struct Skipped {
    int64_t lines = 0;  ///< how many
    int64_t first = 0;  ///< the number of the first of them, from 1
  };
  std::map<std::string, Skipped> skipped;  ///< by reason: "invalid UTF-8", "no tab", ...
};

/// Reads a file of pairs, one a line: source, tab, target. What follows a second tab is ignored
/// (collections such as Tatoeba's name the author there). Lines may end with carriage return and
/// newline, the last one with nothing; a byte order mark is passed over. Sides are taken as they
/// are, spaces at their ends too. Throws Error, naming the file and the line, on a line without a
/// tab, with an empty side (or one of spaces) or that is not UTF-8, unless told to skip those.
PairFile read_pairs(const std::string& path, const ReadPairsOptions& options = {});

}  // namespace gradus::models
