#include "examples/tasks/corpus.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "examples/support/folder.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"
#include "gradus/core/files/checksum.h"
#include "gradus/core/files/file.h"
#include "gradus/core/runtime/ceil_div.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"

namespace gradus {

using internal::ceil_div;
using models::Split, models::TokenFile;

void add_corpus_flags(Flags& flags, CorpusOptions& o) {
  flags.add(
      "--data", o.data, "FILE",
      "UTF-8 text, a folder of texts, several separated by commas, or - for standard input; or "
      "conversations in FILE.jsonl; the last tenth is the validation set",
      name_of_text(""));
  flags.add("--val-data", o.val_data, "FILE",
            "validation text, instead of the last tenth of --data", "none");
  add_tokenizer_flags(flags, o.tokenizer);
  flags.add("--on-disk", o.on_disk, "read texts in pieces and keep tokens in --out, not in memory");
  flags.added_later({"--val-data", "--tokenizer", "--vocab", "--on-disk"});
}

/// A text in memory, or a file on disk.
struct Corpus::Text {
  std::string name, held;
  bool on_disk = false;
  int64_t size = 0;

  Text(const std::string& path, bool stays) : name(name_of_text(path)), on_disk(stays) {
    const std::string missing = stays && !path.empty() ? missing_file(path) : "";
    core::check(missing.empty(), "--on-disk: ", missing, ": no such file");
    std::error_code error;
    core::check(!stays || std::filesystem::is_regular_file(path, error),
                "--on-disk: expected one file, --data FILE, got ", name);
    if (!stays) held = read_text(path);
    size = stays ? static_cast<int64_t>(std::filesystem::file_size(path, error)) : std::ssize(held);
    core::check(!error, "cannot read ", path, ": ", error.message());
  }

  /// Reads up to n bytes from byte `first`.
  std::string read(int64_t first, int64_t n) const {
    n = std::min(n, size - first);
    if (!on_disk) return held.substr(static_cast<size_t>(first), static_cast<size_t>(n));
    std::string bytes(static_cast<size_t>(n), '\0');
    std::ifstream file(name, std::ios::binary);
    file.seekg(first);
    core::check(file.read(bytes.data(), n).good(), "cannot read ", name);
    return bytes;
  }
  /// The first byte of the UTF-8 character that contains byte `at`.
  int64_t begin_of_character(int64_t at) const {
    for (int64_t begin = at; begin >= std::max<int64_t>(0, at - 3) && begin < size; --begin)
      if ((read(begin, 1)[0] & 0xc0) != 0x80) return begin;
    return at;  // not UTF-8
  }
};

/// A range of bytes of a text.
struct Corpus::Range {
  const Text* text;
  int64_t first, size;

  /// Calls f() and adds the text's name and the offset to its errors.
  template <class F>
  decltype(auto) naming(F&& f) const {
    const std::string part = ": in the bytes from byte " + std::to_string(first) + " on";
    return core::naming(first > 0 ? text->name + part : text->name, f);
  }
  /// The range's first `most` bytes, cut at a character boundary.
  std::string head(int64_t most) const {
    if (most >= size) return text->read(first, size);
    return text->read(first, text->begin_of_character(first + most) - first);
  }
};

namespace {

/// Validation windows per batch.
int64_t windows_at_once(int64_t context) { return std::max<int64_t>(1, 4096 / context); }

bool is_of_characters(const models::Tokenizer* tokenizer) {
  return dynamic_cast<const models::CharTokenizer*>(tokenizer) != nullptr;
}

/// A new tokenizer for the texts; the first text is the training part.
template <class Range>
std::unique_ptr<models::Tokenizer> new_tokenizer(const TokenizerOptions& o,
                                                 const std::vector<Range>& ranges, int64_t head) {
  if (o.name != "char")
    return ranges[0].naming([&] {
      const bool words = o.name == "word";
      return make_tokenizer(o, "", ranges[0].head(head),
                            words ? std::vector<std::string>{"[UNK]"} : std::vector<std::string>{});
    });
  std::string text;
  for (const Range& range : ranges) text += range.head(head);
  try {
    return make_tokenizer(o, "", text);
  } catch (const Error&) {  // find the text at fault
    for (const Range& range : ranges)
      range.naming([&] { make_tokenizer(o, "", range.head(head)); });
    throw;
  }
}

}  // namespace

/// Splits the texts into a training and a validation part. A single text of characters is not split
/// here: TextData splits its tokens.
std::vector<Corpus::Range> Corpus::cut(const std::vector<Text>& texts) const {
  std::vector<Range> ranges;
  for (const Text& text : texts) ranges.push_back({&text, 0, text.size});
  const bool characters =
      tokenizer_ ? is_of_characters(tokenizer_.get()) : o_.tokenizer.name == "char";
  if (texts.size() == 1 && !characters) {
    const int64_t size = texts[0].size,
                  at = texts[0].begin_of_character(size / 10 * 9 + size % 10 * 9 / 10);
    ranges = {{&texts[0], 0, at}, {&texts[0], at, size - at}};
  }
  return ranges;
}

void Corpus::add_id(const std::string& id) {
  if (!id_.empty()) id_ += ' ';
  id_ += id;
}

std::vector<int64_t> Corpus::encode(const Range& range) {
  std::vector<int64_t> ids =
      range.naming([&] { return tokenizer_->encode(range.text->read(range.first, range.size)); });
  unknown_ += tokenizer_->count_unknown(ids);
  return ids;
}

/// A string that identifies the text and the tokenizer that a range's tokens come from.
std::string Corpus::source_of(const Range& range) const {
  const std::string tokenizer = tokenizer_->to_json();
  const std::array<int64_t, 4> sizes{range.first, range.size, std::ssize(tokenizer), 0};
  internal::Checksum checksum;
  checksum.add(sizes.data(), sizeof sizes);
  checksum.add(tokenizer.data(), tokenizer.size());
  constexpr int64_t most = 1 << 20;  // bytes at a time
  for (int64_t at = 0; at < range.size; at += most) {
    const std::string piece = range.text->read(range.first + at, std::min(most, range.size - at));
    checksum.add(piece.data(), piece.size());
  }
  return checksum.digits();
}

namespace {

/// The token file at `path`, if it is complete and of this text and tokenizer. Sets `other` if it is
/// of another text or tokenizer.
std::optional<TokenFile> find_tokens(const std::string& path, const std::string& source,
                                     int64_t vocab_size, bool& other) {
  try {
    TokenFile file(path);
    other = file.source() != source || file.vocab_size() != vocab_size;
    if (other) return {};
    file.verify();
    return file;
  } catch (const Error&) {  // missing or damaged
    return {};
  }
}

int64_t count_unknown(const TokenFile& file, const models::Tokenizer& tokenizer) {
  if (!tokenizer.has_special("[UNK]")) return 0;
  int64_t sum = 0;
  for (int64_t at = 0; at < file.size(); at += 1 << 16) {
    std::vector<int64_t> ids(static_cast<size_t>(std::min<int64_t>(1 << 16, file.size() - at)));
    file.read(at, std::ssize(ids), ids.data());
    sum += tokenizer.count_unknown(ids);
  }
  return sum;
}

}  // namespace

/// The tokens of a range, from the file at `path` if it is valid. Otherwise the text is encoded,
/// and its tokens are written there unless `files` forbids it.
TokenFile Corpus::tokens_of(const Range& range, const std::string& path, TokenFiles files) {
  const std::string source = source_of(range), &text = range.text->name;
  bool other = false;
  std::optional<TokenFile> file = find_tokens(path, source, tokenizer_->vocab_size(), other);
  if (!file && (files == TokenFiles::read_only || (other && files == TokenFiles::keep))) {
    file = TokenFile::temporary(text, *tokenizer_, {.first = range.first, .most = range.size});
  } else if (!file) {
    TokenFile::write(path, text, *tokenizer_,
                     {.first = range.first, .most = range.size, .source = source});
    file.emplace(path);
    core::check(file->source() == source, path, ": another process is writing it");
  }
  unknown_ += count_unknown(*file, *tokenizer_);
  add_id(std::to_string(range.size) + ' ' + file->checksum());
  return *file;
}

Corpus::Corpus(const CorpusOptions& options, const std::string& begins_with,
               const std::string& folder, int64_t context, TokenFiles files)
    : o_(options), context_(context) {
  std::vector<Text> texts{Text(o_.data, o_.on_disk)};
  if (!o_.val_data.empty()) texts.emplace_back(o_.val_data, o_.on_disk);
  core::check(texts[0].size > 0, texts[0].name, ": the text is empty");
  for (const Text& text : texts) text_bytes_ += text.size;
  if (!o_.tokenizer.folder(begins_with).empty())
    tokenizer_ = make_tokenizer(o_.tokenizer, begins_with, "");
  const std::vector<Range> ranges = cut(texts);
  if (!tokenizer_)
    tokenizer_ = new_tokenizer(o_.tokenizer, ranges,
                               o_.on_disk ? o_.head : std::numeric_limits<int64_t>::max());
  if (o_.on_disk)
    read_from_disk(ranges, folder, files, context);
  else
    read(ranges, texts, context);
  measure_tokens();
}

void Corpus::read(const std::vector<Range>& ranges, const std::vector<Text>& texts,
                  int64_t context) {
  for (const Text& text : texts) add_id(fingerprint(text.held));
  std::vector<int64_t> first = encode(ranges[0]);
  if (ranges.size() == 1)
    data_.emplace(std::move(first), context);
  else
    data_.emplace(std::move(first), encode(ranges[1]), context);
}

void Corpus::read_from_disk(const std::vector<Range>& ranges, const std::string& folder,
                            TokenFiles files, int64_t context) {
  if (files != TokenFiles::read_only) make_folder(folder);
  if (ranges.size() == 1) {
    data_.emplace(tokens_of(ranges[0], folder + "/text.tokens", files), context);
  } else {
    TokenFile train = tokens_of(ranges[0], folder + "/train.tokens", files);
    data_.emplace(std::move(train), tokens_of(ranges[1], folder + "/validation.tokens", files),
                  context);
  }
}

void Corpus::measure_tokens() {
  const auto some = data_->windows(Split::train, 0, 64).inputs.to_vector<int64_t>();
  size_t apart = 0;
  for (const int64_t id : some) apart += tokenizer_->decode({id}).size();
  const bool adds_up = apart == tokenizer_->decode(some).size();
  const auto tokens =
      static_cast<double>(data_->length(Split::train) + data_->length(Split::validation));
  first_token_ = some[0];
  for (int64_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string text = tokenizer_->decode({id});
    if (text == "\n") first_token_ = id;
    bytes_.push_back(adds_up ? static_cast<double>(text.size())
                             : static_cast<double>(text_bytes_) / tokens);
  }
}

models::PackedBatch Corpus::random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                                         int64_t index) const {
  const auto [inputs, targets] = data_->random_batch(split, batch, seed, step, index);
  return {inputs, targets, {}};
}

int64_t Corpus::validation_tokens() const { return data_->length(Split::validation) - 1; }

// Whole windows, some at a time, then the tokens after them.
int64_t Corpus::validation_batches() const {
  const int64_t windows = data_->num_windows(Split::validation);
  return ceil_div(windows, windows_at_once(context_)) + (validation_tokens() > windows * context_);
}

models::PackedBatch Corpus::validation_batch(int64_t i) const {
  const int64_t at_once = windows_at_once(context_), first = i * at_once;
  const auto [inputs, targets] = first < data_->num_windows(Split::validation)
                                     ? data_->windows(Split::validation, first, at_once)
                                     : data_->after_windows(Split::validation);
  return {inputs, targets, {}};
}

double Corpus::bytes(const Tensor& targets) const {
  double sum = 0;
  for (const int64_t id : targets.to_vector<int64_t>()) sum += bytes_[static_cast<size_t>(id)];
  return sum;
}

std::string Corpus::opening() const {
  const int64_t train = data_->length(Split::train), validation = data_->length(Split::validation);
  std::ostringstream out;
  out << "text   " << name_of_text(o_.data) << ": " << with_commas(text_bytes_) << " bytes, "
      << with_commas(train + validation) << " tokens, " << with_commas(tokenizer_->vocab_size())
      << " different";
  if (unknown_ > 0) out << " and " << with_commas(unknown_) << " unknown";
  out << "; " << with_commas(train) << " train, "
      << (o_.val_data.empty() ? "the last " : "of " + o_.val_data + ' ') << with_commas(validation)
      << " validate\n";
  return out.str();
}

}  // namespace gradus
