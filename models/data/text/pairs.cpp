#include "gradus/models/data/text/pairs.h"

#include <string_view>

#include "gradus/core/files/file.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

namespace {

bool is_blank(std::string_view text) {
  char32_t code_point;
  for (size_t at = 0; at < text.size();)
    if (!internal::read_code_point(text, at, code_point) ||
        internal::kind_of(code_point) != internal::Kind::space)
      return false;
  return true;
}

/// Parses a line; returns an error description, or nullptr.
const char* parse(std::string_view line, TextPair& pair) {
  char32_t code_point;
  for (size_t at = 0; at < line.size();)
    if (!internal::read_code_point(line, at, code_point)) return "invalid UTF-8";
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos)
    return line.empty() ? "an empty line" : "no tab between source and target";
  const std::string_view source = line.substr(0, tab), rest = line.substr(tab + 1),
                         target = rest.substr(0, rest.find('\t'));
  if (is_blank(source)) return "an empty source";
  if (is_blank(target)) return "an empty target";
  pair = {std::string(source), std::string(target)};
  return nullptr;
}

}  // namespace

PairFile read_pairs(const std::string& path, const ReadPairsOptions& options) {
  const std::string text = read_file(path);
  PairFile file;
  size_t at = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0;
  while (at < text.size()) {
    const std::string_view line = internal::next_line(text, at);
    ++file.lines;
    TextPair pair;
    if (const char* wrong = parse(line, pair)) {
      check(options.skip_bad, "read_pairs: ", path, ": line ", file.lines, ": ", wrong);
      PairFile::Skipped& skipped = file.skipped[wrong];
      if (skipped.lines++ == 0) skipped.first = file.lines;
    } else {
      file.pairs.push_back(std::move(pair));
    }
  }
  return file;
}

}  // namespace gradus::models
