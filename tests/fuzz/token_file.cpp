#include "gradus/models/data/text/token_file.h"

#include <cstring>

#include "gradus/core/files/checksum.h"
#include "tests/fuzz/fuzz.h"

namespace token_file_fuzz {

using namespace gradus;
using models::TokenFile;

namespace {

std::string file(const std::vector<int64_t>& tokens, int64_t vocab_size,
                 const std::string& source = "") {
  return fuzz::saved(
      [&](const std::string& path) { TokenFile::write(path, tokens, vocab_size, source); });
}

std::vector<std::string> seeds() {
  return {file({1, 2, 3, 0}, 4), file({}, 1), file({70000, 5}, 70001, "00112233aabbccdd")};
}

/// Gives the file the checksum of its tokens.
std::string repair(std::string bytes) {
  internal::Checksum checksum;
  checksum.add(bytes.data() + 64, bytes.size() - 64);
  return bytes.replace(32, 16, checksum.digits());
}

void run(const std::string& bytes) {
  fuzz::past_checksum(bytes, repair, [](const std::string& content) {
    const TokenFile tokens(fuzz::write(content));
    std::vector<int64_t> read(static_cast<size_t>(tokens.size()));
    tokens.read(0, tokens.size(), read.data());
    tokens.verify();
    fuzz::expect(file(read, tokens.vocab_size(), tokens.source()) == content,
                 "written again, another file");
  });
}

const fuzz::Register target{{"token_file", seeds, run}};

}  // namespace

}  // namespace token_file_fuzz
