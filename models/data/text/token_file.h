#pragma once
// Writes and reads files of token ids, for texts larger than memory.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Options for encoding a text file into a TokenFile. If `first` is at the end of the text file or
/// beyond, the TokenFile has no tokens.
struct TokenFileOptions {
  int64_t piece = 1 << 22;  ///< approximate number of bytes to encode at a time, 1 to 2^32
  int64_t first = 0;        ///< offset in the text file of the first byte to encode
  int64_t most = std::numeric_limits<int64_t>::max();  ///< maximum number of bytes to encode
  std::string source = {};  ///< 16 lower-case hex digits that identify text and tokenizer, or empty
};

/// A memory-mapped file of token ids: only the parts that are read occupy memory.
///
/// The format is a header of 64 bytes, followed by the tokens as uint16 (vocabularies up to 65,536)
/// or uint32. The header is, little-endian:
///   "gradtok1"
///   bytes per token, 2 or 4, as uint32, and four NUL bytes
///   number of tokens, and vocabulary size, as uint64
///   checksum of the tokens in 16 hexadecimal digits
///   source, which identifies text and tokenizer: 16 hexadecimal digits, or 16 NUL bytes if unknown
///
/// Opening a file reads the header and checks the file's length; verify() reads everything. If the
/// file is truncated while open, the next read() throws Error. If it is truncated during read(),
/// the program ends with SIGBUS, as for any mapped file. write() never truncates a file: it
/// replaces the file atomically, and open TokenFiles keep the old file. Copies are cheap, and
/// threads may share one object.
class TokenFile {
 public:
  /// Opens a file. Throws Error, naming the file, if it cannot be read. Also throws Error, with the
  /// offset of the faulty byte, if the file's length or a field of its header is wrong. Only
  /// verify() checks the checksum.
  explicit TokenFile(const std::string& path);

  int64_t size() const { return count_; }             ///< number of tokens
  int64_t vocab_size() const { return vocab_size_; }  ///< all token ids are below this number
  /// Returns the path with which the file was opened.
  const std::string& path() const;
  /// Returns the checksum stored in the file. Only verify() compares it with the tokens.
  std::string checksum() const;
  /// Returns the `source` that was passed to write(): 16 hexadecimal digits that identify the text
  /// and the tokenizer, or an empty string if none was passed.
  std::string source() const;
  /// Copies n tokens, beginning with token `first`, to `to`. Throws Error if the file does not have
  /// all these tokens, if it has been truncated since it was opened, or if a token is outside the
  /// vocabulary. The message about a token gives its offset in the file.
  void read(int64_t first, int64_t n, int64_t* to) const;
  /// Reads all tokens and compares their checksum with the one stored in the file. Throws Error if
  /// they differ. Also throws the errors of read().
  void verify() const;

  /// Statistics of a text that write() encoded.
  struct Written {
    int64_t bytes = 0;    ///< number of bytes of text encoded
    int64_t tokens = 0;   ///< number of tokens written
    int64_t unknown = 0;  ///< number of [UNK] tokens written
  };
  /// Encodes a text file, writes its tokens to the file `path`, atomically, and returns statistics.
  /// The text is read and encoded in pieces. Throws Error if a file cannot be read or written, or
  /// if an option is out of range. Also throws Error if the tokenizer rejects a piece; the message
  /// then names the text file and the piece.
  ///
  /// The result is the same as if the whole text were encoded at once. Each piece but the last ends
  /// before a space, tab or line break that is followed by a character other than white space, at a
  /// position where tokenizer.may_cut() returns true. A text without such positions is one piece.
  /// For example, HuggingFaceBPE allows a cut only at white space between two letters, so Chinese
  /// text with punctuation at the end of every line is one piece.
  static Written write(const std::string& path, const std::string& text_path,
                       const Tokenizer& tokenizer, const TokenFileOptions& options = {});
  /// Writes the given tokens to the file `path`, atomically. `source` identifies the text and the
  /// tokenizer that produced the tokens. Throws Error if the file cannot be written, if a token is
  /// outside [0, vocab_size), or if vocab_size is outside [1, 2^32]. Also throws Error if `source`
  /// is neither empty nor 16 lower-case hexadecimal digits.
  static void write(const std::string& path, const std::vector<int64_t>& tokens, int64_t vocab_size,
                    const std::string& source = "");
  /// Encodes a text file as write() does, but into a temporary file, and returns the open file. The
  /// temporary file is unlinked at once: the system frees its space when the last copy of the
  /// TokenFile is destroyed or the program ends, even in a crash. path() returns the name under
  /// which the file was created. Throws the errors of write(). Also throws Error if there is no
  /// folder for temporary files.
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
