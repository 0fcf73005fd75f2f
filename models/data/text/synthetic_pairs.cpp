#include "gradus/models/data/text/synthetic_pairs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

namespace {

/// Draws distinct numbers uniformly from [0, total): a Fisher-Yates shuffle that stores only the
/// positions it touched.
class DifferentNumbers {
 public:
  DifferentNumbers(int64_t total, RandomKey key) : total_(total), draws_(key) {}
  int64_t next() {
    const int64_t at = taken_ + draws_.below(total_ - taken_);
    const int64_t number = there(at);
    moved_[at] = there(taken_++);
    return number;
  }

 private:
  int64_t there(int64_t at) const {
    const auto found = moved_.find(at);
    return found == moved_.end() ? at : found->second;
  }
  int64_t total_, taken_ = 0;
  std::unordered_map<int64_t, int64_t> moved_;
  internal::Draws draws_;
};

// ---- dates ----

struct Date {
  int64_t year, month, day;  // from 1
};

constexpr int64_t first_year = 1900, last_year = 2099;

int64_t days_of(int64_t year, int64_t month) {
  constexpr std::array<int64_t, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : days[static_cast<size_t>(month - 1)];
}

/// All dates in order: the index counts days since 1 January 1900, a Monday.
const std::vector<Date>& dates() {
  static const auto all = [] {
    std::vector<Date> list;
    for (int64_t year = first_year; year <= last_year; ++year)
      for (int64_t month = 1; month <= 12; ++month)
        for (int64_t day = 1; day <= days_of(year, month); ++day)
          list.push_back({year, month, day});
    return list;
  }();
  return all;
}

std::string two(int64_t n) {
  return {static_cast<char>('0' + n / 10), static_cast<char>('0' + n % 10)};
}

std::string ordinal(int64_t n) {
  const bool teens = n / 10 == 1;
  const char* end = !teens && n % 10 == 1   ? "st"
                    : !teens && n % 10 == 2 ? "nd"
                    : !teens && n % 10 == 3 ? "rd"
                                            : "th";
  return std::to_string(n) + end;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}
std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

constexpr int64_t date_forms = 17;

/// Writes the date `day` days after 1 January 1900 in one of the forms.
std::string written(int64_t day, int64_t form) {
  static const std::array<std::string, 12> months{"January",   "February", "March",    "April",
                                                  "May",       "June",     "July",     "August",
                                                  "September", "October",  "November", "December"};
  static const std::array<std::string, 7> weekdays{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                   "Friday", "Saturday", "Sunday"};
  const Date& date = dates()[static_cast<size_t>(day)];
  const std::string d = std::to_string(date.day), y = std::to_string(date.year);
  const std::string &m = months[static_cast<size_t>(date.month - 1)],
                    &w = weekdays[static_cast<size_t>(day % 7)];
  const std::string m3 = m.substr(0, 3), w3 = w.substr(0, 3);
  switch (form) {
    case 0:
      return d + " " + m + " " + y;
    case 1:
      return m + " " + d + ", " + y;
    case 2:
      return m + " " + ordinal(date.day) + ", " + y;
    case 3:
      return "the " + ordinal(date.day) + " of " + m + " " + y;
    case 4:
      return w + ", " + d + " " + m + " " + y;
    case 5:
      return w + " " + m + " " + d + " " + y;
    case 6:
      return w3 + ", " + d + "-" + m3 + "-" + y;
    case 7:
      return d + "-" + m3 + "-" + y;
    case 8:
      return d + ". " + m + " " + y;
    case 9:
      return y + " " + m + " " + d;
    case 10:
      return upper(m) + " " + d + ", " + y;
    case 11:
      return upper(w3 + " " + d + " " + m3 + " " + y);
    case 12:
      return lower(w + ", " + m + " " + d + ", " + y);
    case 13:
      return ordinal(date.day) + " " + lower(m) + " " + y;
    case 14:
      return two(date.day) + "." + two(date.month) + "." + y;
    case 15:
      return y + "/" + two(date.month) + "/" + two(date.day);
    default:
      return y + two(date.month) + two(date.day);
  }
}

constexpr uint64_t key_of_dates = 0x3c6ef372fe94f82bu, key_of_reversals = 0xa54ff53a5f1d36f1u,
                   key_of_sums = 0x510e527fade682d1u;

}  // namespace

std::vector<TextPair> date_pairs(int64_t n, uint64_t seed) {
  const int64_t total = std::ssize(dates()) * date_forms;
  check(n >= 0 && n <= total, "date_pairs: expected 0 to ", total, " pairs, got ", n);
  DifferentNumbers numbers(total, {seed ^ key_of_dates, 0});
  std::vector<TextPair> pairs;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t number = numbers.next(), day = number / date_forms;
    const Date& date = dates()[static_cast<size_t>(day)];
    pairs.push_back({written(day, number % date_forms),
                     std::to_string(date.year) + "-" + two(date.month) + "-" + two(date.day)});
  }
  return pairs;
}

std::vector<TextPair> reversal_pairs(int64_t n, uint64_t seed, const ReversalOptions& options) {
  const auto& [shortest, longest, alphabet] = options;
  const std::unordered_set<char> letters(alphabet.begin(), alphabet.end());
  check(!alphabet.empty() && letters.size() == alphabet.size() &&
            std::all_of(alphabet.begin(), alphabet.end(), [](unsigned char c) { return c < 128; }),
        "reversal_pairs: expected an alphabet of different ASCII characters, got \"", alphabet,
        "\"");
  check(shortest >= 1 && shortest <= longest && longest <= 1 << 16,
        "reversal_pairs: expected lengths of 1 to 65,536 letters, got ", shortest, " to ", longest);
  double strings = 0;  // may become infinite
  for (int64_t length = shortest; length <= longest; ++length)
    strings += std::pow(static_cast<double>(alphabet.size()), static_cast<double>(length));
  check(n >= 0 && 2 * static_cast<double>(n) <= strings, "reversal_pairs: expected 0 to ",
        strings / 2, " pairs, half of all distinct ones, got ", n);
  internal::Draws draws({seed ^ key_of_reversals, 0});
  std::unordered_set<std::string> seen;
  std::vector<TextPair> pairs;
  while (std::ssize(pairs) < n) {
    std::string source(static_cast<size_t>(shortest + draws.below(longest - shortest + 1)), ' ');
    for (char& c : source) c = alphabet[static_cast<size_t>(draws.below(std::ssize(alphabet)))];
    if (seen.insert(source).second)
      pairs.push_back({source, std::string(source.rbegin(), source.rend())});
  }
  return pairs;
}

std::vector<TextPair> addition_pairs(int64_t n, uint64_t seed, int64_t digits) {
  check(digits >= 1 && digits <= 9, "addition_pairs: expected 1 to 9 digits, got ", digits);
  int64_t numbers = 1;
  for (int64_t i = 0; i < digits; ++i) numbers *= 10;
  check(n >= 0 && n <= numbers * numbers, "addition_pairs: expected 0 to ", numbers * numbers,
        " pairs, got ", n);
  DifferentNumbers choices(numbers * numbers, {seed ^ key_of_sums, 0});
  std::vector<TextPair> pairs;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t choice = choices.next(), a = choice / numbers, b = choice % numbers;
    pairs.push_back({std::to_string(a) + "+" + std::to_string(b), std::to_string(a + b)});
  }
  return pairs;
}

}  // namespace gradus::models
