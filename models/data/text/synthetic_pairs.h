#pragma once
// Synthetic pairs of texts, for training without a download.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/models/data/text/pairs.h"

namespace gradus::models {

/// Returns n pairs of a date as people write it and the same date in ISO 8601, for example
/// "Sunday, 3 May 1987" -> "1987-05-03". The dates are random, from 1900 to 2099 (Gregorian
/// calendar). No two sources are equal. No form is ambiguous: dates in digits are day.month.year,
/// year/month/day or yearmonthday, and years have four digits. The forms are:
///   3 May 1987            May 3, 1987           May 3rd, 1987         the 3rd of May 1987
///   Sunday, 3 May 1987    Sunday May 3 1987     Sun, 3-May-1987       3-May-1987
///   3. May 1987           1987 May 3            MAY 3, 1987           SUN 3 MAY 1987
///   sunday, may 3, 1987   3rd may 1987          03.05.1987            1987/05/03
///   19870503
/// Forms with hyphens or a short weekday (Sun, SUN) shorten the month to three letters. Throws
/// Error unless 0 <= n <= 17 * 73,049, the number of forms times the number of days.
std::vector<TextPair> date_pairs(int64_t n, uint64_t seed);

struct ReversalOptions {
  int64_t min_length = 1, max_length = 10;              ///< limits of the length, 1 to 65,536
  std::string alphabet = "abcdefghijklmnopqrstuvwxyz";  ///< distinct ASCII characters
};
/// Returns n pairs of a random string and its reversal: "abcd" -> "dcba". No two sources are equal.
/// Lengths and letters are drawn uniformly, and repeated strings are discarded. Throws Error if
/// n < 0, if an option is out of range, or if the options allow fewer than 2 n distinct strings.
/// (With fewer, most drawn strings could be repeats.)
std::vector<TextPair> reversal_pairs(int64_t n, uint64_t seed, const ReversalOptions& options = {});

/// Returns n pairs of a random sum and its result: "123+45" -> "168". The summands are integers
/// from 0 to 10^digits - 1. No two sources are equal. Throws Error unless 1 <= digits <= 9 and
/// 0 <= n <= 10^(2 digits), the number of ordered pairs of summands.
std::vector<TextPair> addition_pairs(int64_t n, uint64_t seed, int64_t digits = 3);

}  // namespace gradus::models
