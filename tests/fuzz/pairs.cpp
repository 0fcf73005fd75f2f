#include "gradus/models/data/text/pairs.h"

#include "tests/fuzz/fuzz.h"

namespace pairs_fuzz {

using namespace gradus;

namespace {

std::vector<std::string> seeds() {
  return {"Hello.\tHallo.\n", "\xef\xbb\xbfGo!\tGeh!\tCC-BY\r\nYes\tJa\r\n", "a\tb\nc\td"};
}

/// Checks that written pairs are read back the same, and that skipping bad lines loses no pairs.
void run(const std::string& bytes) {
  const std::string path = fuzz::write(bytes);
  const models::PairFile some = models::read_pairs(path, {.skip_bad = true});
  int64_t skipped = 0;
  for (const auto& [reason, lines] : some.skipped) skipped += lines.lines;
  fuzz::expect(std::ssize(some.pairs) + skipped == some.lines, "lines are lost");
  std::string text;
  for (const auto& [source, target] : some.pairs) text += source + '\t' + target + "\t\n";
  fuzz::write(text, "again");
  if (!text.starts_with("\xef\xbb\xbf"))
    fuzz::expect(models::read_pairs(fuzz::path_of("again")).pairs == some.pairs, "other pairs");
  fuzz::expect(models::read_pairs(path).pairs == some.pairs, "good lines are left out");
}

const fuzz::Register target{{"pairs", seeds, run, 1000}};

}  // namespace

}  // namespace pairs_fuzz
