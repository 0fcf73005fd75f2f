#include "gradus/models/data/text/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "gradus/core/files/checksum.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace {

struct Header {
  char magic[8] = {'g', 'r', 'a', 'd', 't', 'o', 'k', '1'};
  uint32_t width = 0;
  uint32_t zero = 0;
  uint64_t count = 0, vocab_size = 0;
  char checksum[16] = {};
  char source[16] = {};
};
static_assert(sizeof(Header) == 64);

bool is_source(const std::string& text) {
  return text.size() == sizeof Header::source &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

int64_t width_for(int64_t vocab_size) { return vocab_size <= 1 << 16 ? 2 : 4; }

/// Writes tokens after a header, which it fills in last.
class Writer {
 public:
  Writer(File& file, int64_t vocab_size, const std::string& source) : file_(file) {
    check(vocab_size >= 1 && vocab_size <= int64_t{1} << 32,
          "TokenFile: expected a vocabulary of 1 to 2^32 tokens, got ", vocab_size);
    header_.vocab_size = static_cast<uint64_t>(vocab_size);
    header_.width = static_cast<uint32_t>(width_for(vocab_size));
    check(source.empty() || is_source(source),
          "TokenFile: expected a source of 16 hexadecimal digits, or none, got ", source);
    std::copy(source.begin(), source.end(), header_.source);
    file_.write(&header_, sizeof header_);
  }
  void add(const std::vector<int64_t>& tokens) {
    for (const int64_t token : tokens) {
      check(token >= 0 && static_cast<uint64_t>(token) < header_.vocab_size,
            "TokenFile: expected tokens from 0 to ", header_.vocab_size - 1, ", got ", token);
      const char* bytes = reinterpret_cast<const char*>(&token);  // little-endian
      buffer_.insert(buffer_.end(), bytes, bytes + header_.width);
      if (buffer_.size() == size_t{1} << 16) flush();
    }
    header_.count += tokens.size();
  }
  void finish() {
    flush();
    const std::string digits = checksum_.digits();
    std::copy(digits.begin(), digits.end(), header_.checksum);
    file_.rewind();
    file_.write(&header_, sizeof header_);
  }

 private:
  void flush() {
    if (buffer_.empty()) return;
    checksum_.add(buffer_.data(), buffer_.size());
    file_.write(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  File& file_;
  Header header_;
  Checksum checksum_;
  std::vector<char> buffer_;
};

/// Whether c is white space for every tokenizer. U+000B and U+000C are not: WordPiece drops them
/// without splitting.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The last position where TokenFile::write may cut an incomplete text, or 0.
size_t last_cut(const std::string& text, const Tokenizer& tokenizer) {
  for (size_t at = text.size(); at-- > 1;) {
    if (!is_space(text[at]) || at + 1 == text.size()) continue;
    size_t end = at + 1;
    char32_t next;
    const bool whole = internal::read_code_point(text, end, next);
    if (!whole && at + 4 >= text.size()) continue;  // the character is incomplete
    if (whole && internal::kind_of(next) == internal::Kind::space) continue;
    if (tokenizer.may_cut(text, at)) return at;
  }
  return 0;
}

/// Calls use(piece, its offset in the file) for each piece of the range of a text file that the
/// options name.
void for_each_piece(const std::string& path, const Tokenizer& tokenizer,
                    const TokenFileOptions& options,
                    const std::function<void(const std::string&, uint64_t)>& use) {
  const auto piece = static_cast<size_t>(options.piece);
  auto before = static_cast<uint64_t>(options.first), most = static_cast<uint64_t>(options.most);
  File file("TokenFile: " + path + ": ", path, O_RDONLY);
  if (before > 0)
    file.succeeded(::lseek(file.descriptor(), static_cast<off_t>(before), SEEK_SET) >= 0);
  std::string text;
  for (size_t requested = piece;;) {
    const size_t had = text.size(), may = static_cast<size_t>(std::min<uint64_t>(requested, most));
    text.resize(had + may);
    const size_t got = file.read(text.data() + had, may);
    text.resize(had + got);
    most -= got;
    const bool is_last = got < requested;
    const size_t cut = is_last ? text.size() : last_cut(text, tokenizer);
    if (cut > 0) {
      std::string rest = text.substr(cut);
      text.resize(cut);
      use(text, before);
      before += cut;
      text = std::move(rest);
    }
    if (is_last) return;
    requested = std::max(piece, cut > 0 ? piece : text.size());  // without a cut, doubles the text
  }
}

void check_options(const TokenFileOptions& o) {
  check(o.piece >= 1 && o.piece <= int64_t{1} << 32,
        "TokenFile: expected pieces of 1 to 2^32 bytes, got ", o.piece);
  check(o.first >= 0 && o.most >= 0, "TokenFile: expected a range of bytes, got ", o.most,
        " from byte ", o.first, " on");
}

TokenFile::Written write_tokens(File& file, const std::string& text_path,
                                const Tokenizer& tokenizer, const TokenFileOptions& o) {
  TokenFile::Written written;
  Writer writer(file, tokenizer.vocab_size(), o.source);
  for_each_piece(text_path, tokenizer, o, [&](const std::string& piece, uint64_t at) {
    const std::vector<int64_t> tokens =
        internal::encode(tokenizer, piece, "TokenFile: ", text_path, ": in the ", piece.size(),
                         " bytes from byte ", at, " on: ");
    writer.add(tokens);
    written.bytes += std::ssize(piece);
    written.tokens += std::ssize(tokens);
    written.unknown += tokenizer.count_unknown(tokens);
  });
  writer.finish();
  return written;
}

/// Creates and opens a temporary file, sets `path` to its name, and unlinks it.
std::unique_ptr<File> open_nameless(std::string& path) {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  check(!error, "TokenFile: no folder for temporary files: ", error.message());
  path = (folder / "gradus-tokens-XXXXXX").string();
  const int fd = ::mkstemp(path.data());
  check(fd >= 0, "TokenFile: cannot write ", path, ": ", std::strerror(errno));
  ::close(fd);
  auto file = std::make_unique<File>("TokenFile: " + path + ": ", path, O_RDWR | O_NOFOLLOW);
  ::unlink(path.c_str());
  return file;
}

}  // namespace

struct TokenFile::Open {
  Open(const std::string& p, std::unique_ptr<File> f)
      : path(p), context("TokenFile: " + p + ": "), file(std::move(f)), content(*file) {
    check(content.bytes >= sizeof(Header), context, "byte ", content.bytes,
          ": the file ends within its header");
  }

  std::string path, context;
  std::unique_ptr<File> file;
  Mapping content;
};

TokenFile::TokenFile(const std::string& path)
    : TokenFile(std::make_shared<Open>(
          path, std::make_unique<File>("TokenFile: " + path + ": ", path, O_RDONLY))) {}

TokenFile::TokenFile(std::shared_ptr<const Open> open) : open_(std::move(open)) {
  const std::string& context = open_->context;
  Header header;
  std::memcpy(&header, open_->content.data, sizeof header);
  check(std::memcmp(header.magic, Header().magic, sizeof header.magic) == 0, context,
        "byte 0: not a token file: it does not begin with \"gradtok1\"");
  check(header.vocab_size >= 1 && header.vocab_size <= uint64_t{1} << 32, context,
        "byte 24: expected a vocabulary of 1 to 2^32 tokens, got ", header.vocab_size);
  width_ = width_for(static_cast<int64_t>(header.vocab_size));
  check(header.width == width_, context, "byte 8: expected ", width_, " bytes per token, got ",
        header.width);
  check(header.zero == 0, context, "bytes 12 to 15: expected zeros");
  const std::string source = this->source();
  check(source.empty() || is_source(source), context,
        "byte 48: expected 16 hexadecimal digits or zeros");
  const uint64_t there = open_->content.bytes - sizeof header, width = header.width;
  check(there % width == 0 && there / width == header.count, context, "byte 16: expected ",
        header.count, " tokens of ", width, " bytes, got ", there, " bytes");
  count_ = static_cast<int64_t>(header.count);
  vocab_size_ = static_cast<int64_t>(header.vocab_size);
}

const std::string& TokenFile::path() const { return open_->path; }

std::string TokenFile::checksum() const {
  const char* at = reinterpret_cast<const char*>(open_->content.data) + offsetof(Header, checksum);
  return {at, at + sizeof(Header::checksum)};
}

std::string TokenFile::source() const {
  const char* at = reinterpret_cast<const char*>(open_->content.data) + offsetof(Header, source);
  const std::string source(at, at + sizeof(Header::source));
  return source == std::string(source.size(), '\0') ? "" : source;
}

template <class T>
void TokenFile::copy(int64_t first, int64_t n, int64_t* to) const {
  const std::byte* from =
      open_->content.data + sizeof(Header) + static_cast<size_t>(first) * sizeof(T);
  for (int64_t i = 0; i < n; ++i) {
    T token;
    std::memcpy(&token, from + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    check(token < vocab_size_, open_->context, "byte ",
          sizeof(Header) + static_cast<size_t>(first + i) * sizeof(T), ": expected a token below ",
          vocab_size_, ", got ", token);
    to[i] = token;
  }
}

void TokenFile::read(int64_t first, int64_t n, int64_t* to) const {
  check(first >= 0 && n >= 0 && first <= count_ && n <= count_ - first, open_->context, n,
        " tokens from token ", first, " on: only ", count_, " exist");
  const uint64_t now = open_->file->size();
  check(now >= open_->content.bytes, open_->context,
        "the file was truncated after it was opened: ", "from ", open_->content.bytes, " bytes to ",
        now);
  if (width_ == 2)
    copy<uint16_t>(first, n, to);
  else
    copy<uint32_t>(first, n, to);
}

void TokenFile::verify() const {
  constexpr int64_t piece = 1 << 15;  // a multiple of 32 bytes, as Checksum requires
  std::vector<int64_t> tokens(piece);
  Checksum checksum;
  for (int64_t at = 0; at < count_; at += piece) {
    const int64_t n = std::min(piece, count_ - at);
    read(at, n, tokens.data());
    checksum.add(open_->content.data + sizeof(Header) + at * width_,
                 static_cast<size_t>(n * width_));
  }
  check(checksum.digits() == this->checksum(), open_->context, "byte 32: the tokens' checksum is ",
        checksum.digits(), ", not the one stored there: the file is damaged");
}

TokenFile::Written TokenFile::write(const std::string& path, const std::string& text_path,
                                    const Tokenizer& tokenizer, const TokenFileOptions& options) {
  check_options(options);
  Written written;
  replace_file("TokenFile", path,
               [&](File& file) { written = write_tokens(file, text_path, tokenizer, options); });
  return written;
}

void TokenFile::write(const std::string& path, const std::vector<int64_t>& tokens,
                      int64_t vocab_size, const std::string& source) {
  replace_file("TokenFile", path, [&](File& file) {
    Writer writer(file, vocab_size, source);
    writer.add(tokens);
    writer.finish();
  });
}

TokenFile TokenFile::temporary(const std::string& text_path, const Tokenizer& tokenizer,
                               const TokenFileOptions& options) {
  check_options(options);
  std::string path;
  std::unique_ptr<File> file = open_nameless(path);
  write_tokens(*file, text_path, tokenizer, options);
  file->rewind();  // flushes the buffer
  return TokenFile(std::make_shared<Open>(path, std::move(file)));
}

}  // namespace gradus::models
