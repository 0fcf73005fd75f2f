#pragma once
// Tokens on disk, for texts larger than memory.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// How TokenFile encodes a text file.
struct TokenFileOptions {
  int64_t piece = 1 << 22;  ///< approximate number of bytes to encode at a time
  int64_t first = 0;        ///< first byte of the text to encode
  int64_t most = std::numeric_limits<int64_t>::max();  ///< maximum number of bytes to encode
  std::string source = {};  ///< see TokenFile::source(); 16 hexadecimal digits, or empty
};

/// A memory-mapped file of token ids: only what is read takes memory.
///
/// Format: a header of 64 bytes ("gradtok1"; then, little-endian, bytes per token, 2 or 4, as
/// uint32; four zero bytes; the number of tokens and the vocabulary size as uint64; a checksum of
/// the tokens in 16 hexadecimal digits; the source in 16 hexadecimal digits, or zeros if unknown),
/// then the tokens as uint16 (vocabularies up to 65,536) or uint32.
///
/// Opening reads the header and checks the file's length; verify() reads everything. If the file is
/// truncated while open, the next read throws Error; truncation in the middle of a read ends the
/// program with SIGBUS, as for any mapped file. write() never causes that: it replaces the file
/// atomically, and readers keep the old one. Copies are cheap; threads may share one.
class TokenFile {
 public:
  /// Throws Error, naming the file and the byte, unless it is a complete file of this format.
  explicit TokenFile(const std::string& path);

  int64_t size() const { return count_; }             ///< number of tokens
  int64_t vocab_size() const { return vocab_size_; }  ///< every token is below this
  /// The path that the file was opened with.
  const std::string& path() const;
  /// Checksum stored in the file; only verify() compares it with the tokens.
  std::string checksum() const;
  /// Identifies the text and the tokenizer, as given to write(): 16 hexadecimal digits, or empty if
  /// unknown.
  std::string source() const;
  /// Copies tokens first ... first + n - 1. Throws Error if these do not exist, if the file has
  /// been truncated, and, naming the byte, on a token outside the vocabulary.
  void read(int64_t first, int64_t n, int64_t* to) const;
  /// Reads all tokens. Throws Error on one outside the vocabulary or on a wrong checksum.
  void verify() const;

  /// Statistics of the text written.
  struct Written {
    int64_t bytes = 0;    ///< bytes of text encoded
    int64_t tokens = 0;   ///< number of tokens written
    int64_t unknown = 0;  ///< [UNK] among the tokens
  };
  /// Encodes a text file and writes its tokens, atomically. The text is read and encoded in pieces.
  /// A piece ends before a space, tab or line break that a character other than white space
  /// follows; cutting there does not change the tokens of this library's tokenizers. A text without
  /// such positions is a single piece. Throws Error naming the file and the piece that the
  /// tokenizer rejects, and on options out of range.
  static Written write(const std::string& path, const std::string& text_path,
                       const Tokenizer& tokenizer, const TokenFileOptions& options = {});
  /// Writes the given tokens. Throws Error on one outside [0, vocab_size), and on a source that is
  /// neither empty nor 16 hexadecimal digits.
  static void write(const std::string& path, const std::vector<int64_t>& tokens, int64_t vocab_size,
                    const std::string& source = "");
  /// Writes the same tokens as write() to a temporary file without a name. The system frees it with
  /// the last copy of the TokenFile, even if the program crashes; path() returns the name under
  /// which it was created. Throws Error as write() does, and if there is no folder for temporary
  /// files.
  static TokenFile temporary(const std::string& text_path, const Tokenizer& tokenizer,
                             const TokenFileOptions& options = {});

 private:
  struct Open;
  explicit TokenFile(std::shared_ptr<const Open> open);
  template <class T>
  void copy(int64_t first, int64_t n, int64_t* to) const;

  std::shared_ptr<const Open> open_;
  int64_t count_ = 0, vocab_size_ = 0, width_ = 0;
};

}  // namespace gradus::models
