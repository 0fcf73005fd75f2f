#include "examples/page/rate_by_hand.h"

#include <cstdio>
#include <sstream>

#include "examples/support/text.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/fields.h"

namespace gradus {

std::string RateByHand::text() const {
  std::string all;
  for (const auto& [step, factor] : factors_) {
    char one[64];
    std::snprintf(one, sizeof one, "%s%lld:%.17g", all.empty() ? "" : " ",
                  static_cast<long long>(step), factor);
    all += one;
  }
  return all;
}

RateByHand RateByHand::from_text(const std::string& text, const std::string& where) {
  RateByHand changes;
  std::istringstream in(text);
  for (std::string one; in >> one;) {
    const size_t colon = std::min(one.find(':'), one.size() - 1);
    const auto step = models::parse_number<int64_t>(one.substr(0, colon));
    const auto factor = models::parse_number<double>(one.substr(colon + 1));
    core::check(step && factor && *step >= 1 && *factor >= 0, where,
                ": expected STEP:FACTOR for \"rate_by_hand\", got ", shown(one));
    changes.change(*step, *factor);
  }
  return changes;
}

}  // namespace gradus
