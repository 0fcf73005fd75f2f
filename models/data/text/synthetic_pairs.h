#pragma once
// Pairs of texts that the library makes itself, to learn from without a download.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/models/data/text/pairs.h"

namespace gradus::models {

/// n dates of the years 1900 to 2099 (Gregorian calendar) as people write them, and as ISO 8601
/// writes them: "Sunday, 3 May 1987" -> "1987-05-03". All sources are different. The forms, none of
/// which can be taken for another date (numbers alone are day.month.year with dots, year/month/day
/// with slashes, or yearmonthday; years have four digits):
///   3 May 1987            May 3, 1987           May 3rd, 1987         the 3rd of May 1987
///   Sunday, 3 May 1987    Sunday May 3 1987     Sun, 3-May-1987       3-May-1987
///   3. May 1987           1987 May 3            MAY 3, 1987           SUN 3 MAY 1987
///   sunday, may 3, 1987   3rd may 1987          03.05.1987            1987/05/03
///   19870503
/// (3-May-1987 and SUN 3 MAY 1987 have the first three letters of the month.) Throws Error unless
/// 0 <= n <= 17 * 73,049, the number of sources there are.
std::vector<TextPair> date_pairs(int64_t n, uint64_t seed);

struct ReversalOptions {
  int64_t min_length = 1, max_length = 10;              ///< letters; each length is as likely
  std::string alphabet = "abcdefghijklmnopqrstuvwxyz";  ///< of ASCII, all different
};
/// n strings of random letters and the same from right to left: "abcd" -> "dcba". All sources are
/// different. Throws Error if there are not twice as many strings to choose from.
std::vector<TextPair> reversal_pairs(int64_t n, uint64_t seed, const ReversalOptions& options = {});

/// n sums of two numbers of at most `digits` digits (1 to 9): "123+45" -> "168". All sources are
/// different. Throws Error if there are fewer.
std::vector<TextPair> addition_pairs(int64_t n, uint64_t seed, int64_t digits = 3);

}  // namespace gradus::models
