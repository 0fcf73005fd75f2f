#include "gradus/models/data/tokenizers/bpe.h"

#include <algorithm>

#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models::internal {

namespace {

/// Returns the kind of the character at text[at] and sets `end` to where it ends. GPT-2 does not
/// count marks as letters.
Kind kind_at(std::string_view text, size_t at, size_t& end) {
  char32_t code_point;
  end = at;
  if (!read_code_point(text, end, code_point)) {
    end = at + 1;
    return Kind::other;
  }
  const Kind kind = kind_of(code_point);
  return kind == Kind::mark ? Kind::other : kind;
}

/// Length of the contraction at text[at], or 0.
size_t contraction(std::string_view text, size_t at) {
  if (text[at] != '\'') return 0;
  for (const std::string_view one : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at, one.size()) == one) return one.size();
  return 0;
}

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// The code point that stands for each byte.
const std::array<char32_t, 256>& alphabet() {
  static const auto all = [] {
    std::array<char32_t, 256> points{};
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte)
      points[static_cast<size_t>(byte)] = prints(byte) ? static_cast<char32_t>(byte) : next++;
    return points;
  }();
  return all;
}

}  // namespace

namespace {

size_t end_by_gpt2(std::string_view text, size_t at) {
  if (const size_t bytes = contraction(text, at)) return at + bytes;
  // An optional space, then as many letters, digits or others as follow.
  size_t end;
  const size_t begin = at + (text[at] == ' ' && at + 1 < text.size() ? 1 : 0);
  const Kind kind = kind_at(text, begin, end);
  if (kind != Kind::space) {
    for (size_t next; end < text.size() && kind_at(text, end, next) == kind;) end = next;
    return end;
  }
  // Spaces, except for the last one if a word follows and it is not the only space.
  size_t last = at;
  kind_at(text, at, end);
  for (size_t next; end < text.size() && kind_at(text, end, next) == Kind::space; end = next)
    last = end;
  return end == text.size() || last == at ? end : last;
}

/// End of the run of characters from text[at] on for which is(kind) holds, at most `most`.
template <class Is>
size_t end_of_run(std::string_view text, size_t at, Is&& is, size_t most = SIZE_MAX) {
  for (size_t end; most > 0 && at < text.size() && is(kind_at(text, at, end)); at = end) --most;
  return at;
}

bool is_newline(char c) { return c == '\n' || c == '\r'; }
bool is_letter(Kind kind) { return kind == Kind::letter; }
bool is_number(Kind kind) { return kind == Kind::number; }
bool is_space(Kind kind) { return kind == Kind::space; }
bool is_other(Kind kind) { return kind == Kind::other; }

/// The end by Llama 3's pattern, whose alternatives are tried in this order:
///   's 't 're 've 'm 'll 'd in either case | [^\r\n letters numbers]? letters
///   | up to three numbers |  ?others newlines* | spaces up to the last newline
///   | spaces, except the last one before a word | spaces
size_t end_by_llama3(std::string_view text, size_t at, size_t most_numbers) {
  const std::string_view three = text.substr(at, 3);
  std::string lower(three);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (const size_t bytes = contraction(lower, 0)) return at + bytes;
  size_t next;
  const Kind kind = kind_at(text, at, next);
  const bool may_lead = !is_letter(kind) && !is_number(kind) && !is_newline(text[at]);
  const size_t begin = may_lead ? next : at, letters = end_of_run(text, begin, is_letter);
  if (letters > begin) return letters;
  if (is_number(kind)) return end_of_run(text, at, is_number, most_numbers);
  const size_t first = at + (text[at] == ' '), others = end_of_run(text, first, is_other);
  if (others > first) {
    const size_t end = text.find_first_not_of("\r\n", others);
    return end == std::string_view::npos ? text.size() : end;
  }
  const size_t spaces = end_of_run(text, at, is_space);
  for (size_t end = spaces; end > at; --end)
    if (is_newline(text[end - 1])) return end;
  if (spaces == text.size()) return spaces;
  size_t last = spaces - 1;
  while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return last > at ? last : spaces;
}

/// The end by WordRule::digits: each character of a number is a word, and GPT-2's rule splits the
/// text between numbers as if each part were a whole text. Its words end before a number anyway,
/// except for spaces, of which it would leave the last to the number.
size_t end_by_digits(std::string_view text, size_t at) {
  const auto after_digit = [&](size_t from) { return end_of_run(text, from, is_number, 1); };
  if (after_digit(at) > at) return after_digit(at);
  const size_t spaces = end_of_run(text, at, is_space);
  return spaces > at && after_digit(spaces) > spaces ? spaces : end_by_gpt2(text, at);
}

}  // namespace

const char* const llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

size_t end_of_word(std::string_view text, size_t at, WordRule rule) {
  switch (rule) {
    case WordRule::gpt2:
      return end_by_gpt2(text, at);
    case WordRule::digits:
      return end_by_digits(text, at);
    case WordRule::llama3:
      return end_by_llama3(text, at, 3);
    case WordRule::qwen2:
      return end_by_llama3(text, at, 1);
  }
  return text.size();
}

// ---- merging ----

/// A heap holds the adjacent pairs that match a rule, ordered by rule, then from left to right;
/// stale entries are skipped. Pairs created by merges enter the heap after each merge if merging
/// one by one, otherwise when the rule is done, as in BPETokenizer's definition.
void BPEMerger::merge_all() {
  waiting_.clear();
  for (int32_t i = 0; i < std::ssize(nodes_); ++i) wait(i);
  while (!waiting_.empty()) {
    const uint64_t rank = waiting_.front() >> 32;
    const BPEMerge& rule = merges_[rank];
    fresh_.clear();
    do {
      merge(static_cast<int32_t>(waiting_.front() & 0xffffffffu), rule);
      std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
      waiting_.pop_back();
    } while (!one_by_one_ && !waiting_.empty() && waiting_.front() >> 32 == rank);
    for (const int32_t at : fresh_) {
      wait(nodes_[static_cast<size_t>(at)].before);
      wait(at);
    }
  }
}

/// Pushes the pair at this position and the next, if it exists and matches a rule.
void BPEMerger::wait(int32_t at) {
  if (at < 0) return;
  const Node& node = nodes_[static_cast<size_t>(at)];
  if (node.after < 0) return;
  const auto found = ranks_.find(pair_key(node.id, nodes_[static_cast<size_t>(node.after)].id));
  if (found == ranks_.end()) return;
  waiting_.push_back(static_cast<uint64_t>(found->second) << 32 | static_cast<uint32_t>(at));
  std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
}

void BPEMerger::merge(int32_t at, const BPEMerge& rule) {
  Node& node = nodes_[static_cast<size_t>(at)];
  if (node.id != rule.left || node.after < 0) return;
  Node& next = nodes_[static_cast<size_t>(node.after)];
  if (next.id != rule.right) return;
  node.id = rule.result;
  node.after = next.after;
  if (next.after >= 0) nodes_[static_cast<size_t>(next.after)].before = at;
  next.id = -1;
  fresh_.push_back(at);
}

const std::array<uint8_t, 256>& bytes_in_order() {
  static const auto all = [] {
    std::array<uint8_t, 256> order{};
    size_t next = 0;
    for (const bool printing : {true, false})
      for (int byte = 0; byte < 256; ++byte)
        if (prints(byte) == printing) order[next++] = static_cast<uint8_t>(byte);
    return order;
  }();
  return all;
}

std::string bytes_to_unicode(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, alphabet()[static_cast<unsigned char>(byte)]);
  return text;
}

std::string unicode_to_bytes(std::string_view text) {
  static const auto bytes = [] {
    std::array<int16_t, 512> of_point;
    of_point.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte)
      of_point[alphabet()[byte]] = static_cast<int16_t>(byte);
    return of_point;
  }();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    char32_t point;
    if (!read_code_point(text, at, point) || point >= bytes.size() || bytes[point] < 0) return {};
    out += static_cast<char>(bytes[point]);
  }
  return out;
}

}  // namespace gradus::models::internal
