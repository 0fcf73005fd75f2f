#pragma once
// Tokens on disk, for texts larger than memory.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// A file of token ids, mapped into memory: what is not read takes none.
///
/// The file: 64 bytes of header ("gradtok1"; then, little-endian, bytes a token, 2 or 4, as uint32;
/// four bytes 0; the number of tokens and the size of the vocabulary as uint64; a checksum of the
/// tokens in 16 hexadecimal digits; what they were made of, in 16 hexadecimal digits, or zeros if
/// that is not known), then the tokens as uint16 (a vocabulary of at most 65,536) or uint32.
///
/// Opening reads the header and compares the file's length with it; verify() reads all. A file that
/// is cut short while it is open makes the next read throw Error; only one cut short in the midst
/// of a read ends the program, with SIGBUS, as it ends any program that maps files. Who writes with
/// write() need not fear that: it puts a new file in the old one's place, and who has that open
/// keeps it. A copy of a TokenFile costs nothing; threads may share one.
class TokenFile {
 public:
  /// Throws Error, naming the file and the byte, unless it is such a file, whole.
  explicit TokenFile(const std::string& path);

  int64_t size() const { return count_; }             ///< how many tokens
  int64_t vocab_size() const { return vocab_size_; }  ///< each token is below it
  /// As it was opened.
  const std::string& path() const;
  /// As the file gives it: tells tokens from others. Only verify() looks whether it is right.
  std::string checksum() const;
  /// As write() was given it: tells what the tokens were made of from other texts and tokenizers; 16
  /// hexadecimal digits, or empty if that is not known.
  std::string source() const;
  /// Copies tokens first ... first + n - 1. Throws Error if there are no such tokens, if the file
  /// has become shorter, and, naming the byte, on a token outside the vocabulary.
  void read(int64_t first, int64_t n, int64_t* to) const;
  /// Reads all tokens. Throws Error on one outside the vocabulary and on a wrong checksum.
  void verify() const;

  /// What write() found.
  struct Written {
    int64_t bytes = 0;    ///< of text
    int64_t tokens = 0;   ///< made of it
    int64_t unknown = 0;  ///< of these, how many are [UNK]
  };
  /// Writes the tokens of a text file, complete or not at all. The text is read and encoded in
  /// pieces of about `piece` bytes, each cut before a space, tab or line break that stands
  /// before what is no white space: there, none of this library's tokenizers makes other tokens than of
  /// the whole text. A text without such places is taken whole. The text is the file's from byte
  /// `first` on, at most `most` bytes; `source` is for the caller's use. Throws Error naming the file
  /// and where in it the tokenizer refused, and on a source that source() could not give.
  static Written write(const std::string& path, const std::string& text_path,
                       const Tokenizer& tokenizer, int64_t piece = 1 << 22, int64_t first = 0,
                       int64_t most = std::numeric_limits<int64_t>::max(),
                       const std::string& source = "");
  /// Writes tokens that are there already. Throws Error on one outside [0, vocab_size), and on a
  /// source that source() could not give.
  static void write(const std::string& path, const std::vector<int64_t>& tokens, int64_t vocab_size,
                    const std::string& source = "");
  /// The tokens that write() would make of a text, in a file among the system's temporary ones that
  /// has no name (path() tells the one it had) and goes with the last copy, however the program
  /// ends. Throws Error as write(), and if there is no such folder.
  static TokenFile temporary(const std::string& text_path, const Tokenizer& tokenizer,
                             int64_t piece = 1 << 22, int64_t first = 0,
                             int64_t most = std::numeric_limits<int64_t>::max());

 private:
  struct Open;
  explicit TokenFile(std::shared_ptr<const Open> open);
  template <class T>
  void copy(int64_t first, int64_t n, int64_t* to) const;

  std::shared_ptr<const Open> open_;
  int64_t count_ = 0, vocab_size_ = 0, width_ = 0;
};

}  // namespace gradus::models
