#pragma once
// Reads pairs of texts, for example a sentence and its translation, or a question and its answer.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// A pair of texts: the input of a model, and the text that the model should write for it.
struct TextPair {
  std::string source, target;  ///< UTF-8
  bool operator==(const TextPair&) const = default;
};

struct ReadPairsOptions {
  bool skip_bad = false;  ///< whether to skip bad lines (see read_pairs) instead of throwing Error
};

/// The content of a file of pairs.
struct PairFile {
  std::vector<TextPair> pairs;  ///< in the order of the file
  int64_t lines = 0;            ///< number of lines in the file, including skipped ones
  /// Statistics of the lines that were skipped for one reason.
  struct Skipped {
    int64_t lines = 0;  ///< number of skipped lines
    int64_t first = 0;  ///< line number, counted from 1, of the first skipped line
  };
  std::map<std::string, Skipped> skipped;  ///< statistics by reason, such as "an empty line"
};

/// Returns the pairs in a text file with one pair per line: source, tab, target. Anything after a
/// second tab is ignored (in Tatoeba's files, for example, the author). Lines end with LF or CR LF;
/// the last line may end with CR or have no line break. A byte order mark is skipped. Leading and
/// trailing spaces are kept.
///
/// A line is bad if it has no tab, if its source or target is empty or blank, or if it is not
/// UTF-8. Throws Error if the file cannot be read. Also throws Error, naming the file and the line,
/// on a bad line, unless options.skip_bad is true.
PairFile read_pairs(const std::string& path, const ReadPairsOptions& options = {});

}  // namespace gradus::models
