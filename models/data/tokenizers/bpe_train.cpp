// Learning merges. Words are counted once; each merge then touches only the occurrences of its
// pair, so all merges together cost about n log n for n positions.

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe.h"

namespace gradus::models::internal {

namespace {

/// The distinct words of a text, concatenated, as a linked list of tokens.
class Words {
 public:
  explicit Words(const std::string& text, int32_t first_byte_id) {
    std::unordered_map<std::string_view, size_t> positions;
    std::vector<std::string_view> words;
    for (size_t at = 0; at < text.size();) {
      const size_t end = end_of_word(text, at);
      const std::string_view word(text.data() + at, end - at);
      const auto [found, is_new] = positions.emplace(word, words.size());
      if (is_new) {
        words.push_back(word);
        counts_.push_back(0);
      }
      ++counts_[found->second];
      at = end;
    }
    size_t total = 0;
    for (const auto word : words) total += word.size();
    check(total < static_cast<size_t>(std::numeric_limits<int32_t>::max()),
          "BPETokenizer: the text's distinct words have ", total, " bytes, 2^31 - 1 or more");
    std::array<int32_t, 256> ids;
    for (size_t i = 0; i < 256; ++i)
      ids[bytes_in_order()[i]] = first_byte_id + static_cast<int32_t>(i);
    tokens_.reserve(total);
    for (size_t w = 0; w < words.size(); ++w)
      for (size_t i = 0; i < words[w].size(); ++i) {
        const auto position = static_cast<int32_t>(tokens_.size());
        const bool last = i + 1 == words[w].size();
        tokens_.push_back({ids[static_cast<unsigned char>(words[w][i])], i == 0 ? -1 : position - 1,
                           last ? -1 : position + 1, static_cast<int32_t>(w)});
      }
  }

  struct Token {
    int32_t id, before, after;  // before, after: positions, or -1 at the word's start or end
    int32_t word;
  };
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  Token& operator[](int32_t position) { return tokens_[static_cast<size_t>(position)]; }
  /// Number of occurrences in the text of the word at this position.
  int64_t count(int32_t position) { return counts_[static_cast<size_t>((*this)[position].word)]; }

 private:
  std::vector<Token> tokens_;
  std::vector<int64_t> counts_;
};

/// Counts and positions of each pair of adjacent tokens.
class Pairs {
 public:
  void add(uint64_t pair, int32_t position, int64_t count) {
    Entry& entry = entries_[pair];
    entry.count += count;
    entry.positions.push_back(position);
    grown_.push_back(pair);
  }
  void remove(uint64_t pair, int64_t count) {
    const auto found = entries_.find(pair);
    if (found != entries_.end()) found->second.count -= count;
  }
  /// Removes the most frequent pair (of several, the smallest), sets `pair` to it, and sets
  /// `positions` to where it may occur, from left to right. Returns false if no pair occurs
  /// min_count times.
  bool take_most_frequent(int64_t min_count, uint64_t& pair, std::vector<int32_t>& positions) {
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const uint64_t one : grown_)
      if (const auto found = entries_.find(one); found != entries_.end())
        queue_.push({found->second.count, one});
    grown_.clear();
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = entries_.find(best.pair);
      if (found == entries_.end()) continue;
      // The queue has an entry with at least the current count of each pair: a count that has
      // decreased is corrected when its entry reaches the top.
      if (found->second.count != best.count) {
        if (found->second.count < best.count) queue_.push({found->second.count, best.pair});
        continue;
      }
      if (best.count < min_count) return false;
      pair = best.pair;
      positions = std::move(found->second.positions);
      entries_.erase(found);
      std::sort(positions.begin(), positions.end());
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    int64_t count = 0;
    std::vector<int32_t> positions;
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  std::unordered_map<uint64_t, Entry> entries_;
  std::vector<uint64_t> grown_;  // pairs passed to add() since the last call
  std::priority_queue<Candidate> queue_;
};

/// Replaces each `left` followed by `right`, at these positions, by `result`, and updates `pairs`.
void join(Words& words, Pairs& pairs, const std::vector<int32_t>& positions, int32_t left,
          int32_t right, int32_t result) {
  for (const int32_t position : positions) {
    Words::Token& token = words[position];
    if (token.id != left || token.after < 0 || words[token.after].id != right) continue;
    Words::Token& next = words[token.after];
    const int64_t count = words.count(position);
    if (token.before >= 0) {
      const int32_t id = words[token.before].id;
      pairs.remove(pair_key(id, left), count);
      pairs.add(pair_key(id, result), token.before, count);
    }
    if (next.after >= 0) {
      const int32_t id = words[next.after].id;
      pairs.remove(pair_key(right, id), count);
      pairs.add(pair_key(result, id), position, count);
      words[next.after].before = position;
    }
    token.id = result;
    token.after = next.after;
    next.id = -1;
  }
}

}  // namespace

void train_bpe(const std::string& text, const BPEOptions& options, BPETable& table) {
  const auto first = static_cast<int32_t>(table.tokens.size());
  std::unordered_map<std::string, int32_t> ids;  // of pieces, in bytes_to_unicode form
  for (const uint8_t byte : bytes_in_order()) {
    const std::string piece = bytes_to_unicode(std::string(1, static_cast<char>(byte)));
    ids.emplace(piece, static_cast<int32_t>(table.tokens.size()));
    table.tokens.push_back(piece);
  }
  Words words(text, first);
  Pairs pairs;
  for (int32_t position = 0; position < words.size(); ++position)
    if (words[position].after >= 0)
      pairs.add(pair_key(words[position].id, words[position + 1].id), position,
                words.count(position));

  // Two pairs, such as a+bc and ab+c, may make the same piece: two merges, but one token. A piece
  // that is made again may form a pair that was merged before; its rule is not added again.
  std::unordered_set<uint64_t> merged;
  uint64_t pair;
  std::vector<int32_t> positions;
  while (std::ssize(table.tokens) < options.vocab_size &&
         pairs.take_most_frequent(options.min_count, pair, positions)) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair);
    const std::string &a = table.tokens[static_cast<size_t>(left)],
                      &b = table.tokens[static_cast<size_t>(right)];
    const auto [found, is_new] = ids.emplace(a + b, static_cast<int32_t>(table.tokens.size()));
    const int32_t result = found->second;
    if (merged.insert(pair).second) table.merges.push_back(a + ' ' + b);
    if (is_new) table.tokens.push_back(found->first);
    join(words, pairs, positions, left, right, result);
  }
}

}  // namespace gradus::models::internal
