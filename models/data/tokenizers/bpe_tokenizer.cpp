#include "gradus/models/data/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"
#include "gradus/models/data/tokenizers/bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"

namespace gradus::models {

using internal::BPETable;
using internal::pair_key;
using nlohmann::json;

BPETokenizer::BPETokenizer(const BPETable& table) {
  check(std::ssize(table.tokens) < int64_t{1} << 31, table.in_vocab(), "more than 2^31 tokens");
  const Ids ids = add_tokens(table);
  std::vector<bool> producible(pieces_.size());  // tokens that are bytes or results of a merge
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte_ids_[byte] < 0)
      fail(table.in_vocab(), "expected a token for each byte, but there is none for ", byte, ", ",
           shown(internal::bytes_to_unicode(std::string(1, static_cast<char>(byte)))));
    producible[static_cast<size_t>(byte_ids_[byte])] = true;
  }
  for (size_t i = 0; i < table.merges.size(); ++i) {
    const Merge rule = read_merge(table, i, ids, producible);
    if (!ranks_.emplace(pair_key(rule.left, rule.right), static_cast<int32_t>(i)).second)
      fail(table.in_merge(i), "merges ", shown(table.merges[i]), ", as an earlier merge does");
    producible[static_cast<size_t>(rule.result)] = true;
    merges_.push_back(rule);
  }
  for (size_t id = 0; id < pieces_.size(); ++id)
    if (!producible[id] && !is_special(static_cast<int64_t>(id)))
      fail(table.in_vocab(), "token ", shown(table.tokens[id]),
           " is neither a byte, nor the result of a merge, nor a special token");
}

/// Fills in pieces, special tokens and bytes; returns the id of each token.
BPETokenizer::Ids BPETokenizer::add_tokens(const BPETable& table) {
  const std::unordered_set<std::string> special(table.special.begin(), table.special.end());
  Ids ids;
  byte_ids_.fill(-1);
  for (const std::string& token : table.tokens) {
    const auto id = static_cast<int32_t>(ids.size());
    if (!ids.emplace(token, id).second)
      fail(table.in_vocab(), "token ", shown(token), " is in the vocabulary twice");
    pieces_.push_back(special.contains(token) ? token : internal::unicode_to_bytes(token));
    if (pieces_.back().empty())
      fail(table.in_vocab(), "token ", shown(token), " is empty or holds a character that ",
           "stands for no byte");
    if (!special.contains(token) && pieces_.back().size() == 1)
      byte_ids_[static_cast<unsigned char>(pieces_.back()[0])] = id;
  }
  for (const std::string& name : table.special) {
    const auto found = ids.find(name);
    if (found == ids.end())
      fail(table.in_vocab(), "special token ", shown(name), " is not in the vocabulary");
    add_special(name, found->second);
  }
  return ids;
}

/// Parses merge i. `producible` marks the bytes and the results of earlier merges.
BPETokenizer::Merge BPETokenizer::read_merge(const BPETable& table, size_t i, const Ids& ids,
                                             const std::vector<bool>& producible) const {
  const std::string& merge = table.merges[i];
  const size_t space = merge.find(' ');
  if (space == 0 || space == std::string::npos || space + 1 == merge.size() ||
      merge.find(' ', space + 1) != std::string::npos)
    fail(table.in_merge(i), "expected two tokens with a space between, got ", shown(merge));
  auto known = [&](const std::string& token, bool is_result) {
    const auto found = ids.find(token);
    if (found == ids.end() || is_special(found->second))
      fail(table.in_merge(i), is_result ? "makes " : "merges ", shown(token),
           ", which is not in the vocabulary");
    if (!is_result && !producible[static_cast<size_t>(found->second)])
      fail(table.in_merge(i), "merges ", shown(token), ", which no earlier merge produces");
    return found->second;
  };
  const std::string a = merge.substr(0, space), b = merge.substr(space + 1);
  return {known(a, false), known(b, false), known(a + b, true)};
}

BPETokenizer BPETokenizer::train(const std::string& text, const BPEOptions& options) {
  const int64_t least = std::ssize(options.special) + 256;
  check(options.vocab_size >= least && options.vocab_size < int64_t{1} << 31,
        "BPETokenizer: expected a vocab_size from ", least, " (the special tokens and 256 bytes) ",
        "to 2^31 - 1, got ", options.vocab_size);
  check(options.min_count >= 1, "BPETokenizer: expected min_count >= 1, got ", options.min_count);
  auto context = [] { return "BPETokenizer: "; };
  BPETable table{options.special, options.special, {}, context, [&](size_t) { return context(); }};
  internal::train_bpe(text, options, table);
  return BPETokenizer(table);
}

// ---- text to tokens and back ----

std::vector<int64_t> BPETokenizer::encode(const std::string& text) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size() / 3);
  internal::BPEMerger merger(merges_, ranks_);
  std::vector<int32_t> seen;  // tokens of all distinct words, concatenated
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> words;  // ranges in `seen`
  for (size_t at = 0; at < text.size();) {
    const size_t end = internal::end_of_word(text, at);
    check(end - at < size_t{1} << 31, "encode: a word of ", end - at, " bytes at byte ", at);
    const std::string_view word(text.data() + at, end - at);
    const auto [found, is_new] = words.try_emplace(word);
    if (is_new) {
      found->second.first = seen.size();
      merger.append(
          word.size(), [&](size_t i) { return byte_ids_[static_cast<unsigned char>(word[i])]; },
          seen);
      found->second.second = seen.size();
    }
    for (size_t i = found->second.first; i < found->second.second; ++i) ids.push_back(seen[i]);
    at = end;
  }
  return ids;
}

std::string BPETokenizer::decode(const std::vector<int64_t>& ids) const {
  internal::check_ids(ids, vocab_size());
  std::string text;
  for (const int64_t id : ids) text += pieces_[static_cast<size_t>(id)];
  return text;
}

// ---- files ----

std::string BPETokenizer::unicode_token(int64_t id) const {
  const std::string& piece = pieces_[static_cast<size_t>(id)];
  return is_special(id) ? piece : internal::bytes_to_unicode(piece);
}

std::vector<std::string> BPETokenizer::unicode_merges() const {
  std::vector<std::string> all;
  for (const Merge& merge : merges_)
    all.push_back(unicode_token(merge.left) + ' ' + unicode_token(merge.right));
  return all;
}

std::string BPETokenizer::to_json() const {
  std::vector<std::string> vocab;
  for (int64_t id = 0; id < vocab_size(); ++id) vocab.push_back(unicode_token(id));
  const json file{{"type", "bpe"},
                  {"special", special_tokens()},
                  {"vocab", std::move(vocab)},
                  {"merges", unicode_merges()}};
  return file.dump(1) + "\n";
}

namespace {

/// Table of a file in our format or Hugging Face's.
BPETable read_table(const internal::TokenizerFile& file) {
  const auto in_merge = [](size_t i) { return "merge " + std::to_string(i) + " "; };
  if (file.is_hugging_face())
    return {internal::hf_tokens(file.root), internal::hf_special(file.root),
            internal::hf_merges(file.root), [] { return std::string(); }, in_merge};
  file.check_type("bpe");
  check(file.root.contains("merges"), "expected an array of merges for merges");
  return {file.strings("vocab", "tokens", true), file.strings("special", "names", false),
          file.strings("merges", "merges", false), [] { return std::string(); }, in_merge};
}

/// Tokens of vocab.json by id.
std::vector<std::string> read_vocab(const std::string& in_vocab, const std::string& path) {
  const std::string text = read_file(path);
  return internal::tokens_by_id(in_vocab, parse_json((in_vocab + "the file").c_str(), text));
}

/// Lines of merges.txt, without the first one if it is a "#version".
std::vector<std::string> read_merges(const std::string& path, size_t& first_line) {
  const std::string text = read_file(path);
  std::vector<std::string> merges;
  first_line = text.rfind("#version", 0) == 0 ? 2 : 1;
  size_t at = first_line == 2 ? std::min(text.find('\n'), text.size() - 1) + 1 : 0;
  while (at < text.size()) merges.emplace_back(internal::next_line(text, at));
  return merges;
}

}  // namespace

BPETokenizer::BPETokenizer(const internal::TokenizerFile& file) : BPETokenizer(read_table(file)) {}

BPETokenizer BPETokenizer::load(const std::string& path) {
  std::optional<BPETokenizer> tokenizer;
  internal::read_tokenizer("BPETokenizer", path,
                           [&](const auto& file) { tokenizer.emplace(file); });
  return *std::move(tokenizer);
}

BPETokenizer BPETokenizer::load_gpt2(const std::string& vocab_path, const std::string& merges_path,
                                     const std::vector<std::string>& special) {
  const std::string in_vocab = "BPETokenizer: " + vocab_path + ": ";
  BPETable table;
  table.tokens = read_vocab(in_vocab, vocab_path);
  table.special = special;
  size_t first_line;
  table.merges = read_merges(merges_path, first_line);
  table.in_vocab = [&] { return in_vocab; };
  table.in_merge = [&](size_t i) {
    return "BPETokenizer: " + merges_path + ": line " + std::to_string(first_line + i) + " ";
  };
  return BPETokenizer(table);
}

void BPETokenizer::save_gpt2(const std::string& vocab_path, const std::string& merges_path) const {
  json vocab = json::object();
  for (int64_t id = 0; id < vocab_size(); ++id) vocab[unicode_token(id)] = id;
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : unicode_merges()) merges += merge + '\n';
  write_file_atomically(vocab_path, vocab.dump() + "\n");
  write_file_atomically(merges_path, merges);
}

}  // namespace gradus::models
