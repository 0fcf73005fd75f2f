#pragma once
// Reads pairs of texts, for example a sentence and its translation, or a question and its answer.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// A text, and the text that a model should write for it.
struct TextPair {
  std::string source, target;  ///< UTF-8
  bool operator==(const TextPair&) const = default;
};

struct ReadPairsOptions {
  bool skip_bad = false;  ///< skip and count bad lines instead of throwing Error
};

/// The content of a file of pairs.
struct PairFile {
  std::vector<TextPair> pairs;  ///< in the order of the file
  int64_t lines = 0;            ///< number of lines in the file, including skipped ones
  /// Lines skipped for one reason.
  struct Skipped {
    int64_t lines = 0;  ///< number of lines
    int64_t first = 0;  ///< number of the first such line, counted from 1
  };
  std::map<std::string, Skipped> skipped;  ///< by reason, for example "an empty line"
};

/// Reads a file of pairs, one per line: source, tab, target. Anything after a second tab is ignored
/// (in Tatoeba's files, for example, the author). Lines end with LF or CR LF; the last may end
/// with CR or nothing. A byte order mark is skipped. Leading and trailing spaces are kept. A line
/// is bad if it has no tab, if a side is empty or blank, or if it is not UTF-8. Throws Error if the
/// file cannot be read and, unless skip_bad is true, on a bad line; the message names the file and
/// the line.
PairFile read_pairs(const std::string& path, const ReadPairsOptions& options = {});

}  // namespace gradus::models
