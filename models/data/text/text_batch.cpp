#include "gradus/models/data/text/text_batch.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

TextBatch text_batch(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  check(!texts.empty(), "text_batch: expected at least one text");
  const int64_t pad = tokenizer.special("[PAD]"), start = tokenizer.special("[START]"),
                end = tokenizer.special("[END]");
  std::vector<std::vector<int64_t>> rows;
  std::vector<int64_t> lengths;
  for (const std::string& text : texts) {
    auto row = internal::encode(tokenizer, text, "text_batch: text ", rows.size(), ": ");
    row.insert(row.begin(), start);
    row.push_back(end);
    lengths.push_back(std::ssize(row));
    rows.push_back(std::move(row));
  }
  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  for (std::vector<int64_t>& row : rows) row.resize(longest, pad);
  return {from_data(rows), from_data(lengths)};
}

Tensor detail::checked_lengths(const char* op, const TextBatch& texts, int64_t context) {
  const auto& [ids, lengths] = texts;
  check(ids.defined(), op, ": expected token ids (B, T) of int64, got none");
  check(ids.rank() == 2 && ids.dtype() == int64 && ids.numel() > 0, op,
        ": expected token ids (B, T) of int64, none empty, got ", ids.dtype(), " ", ids.shape());
  const int64_t B = ids.size(0), T = ids.size(1);
  check(T <= context, op, ": ", T, " tokens do not fit a context of ", context);
  if (!lengths.defined()) return full({B}, static_cast<double>(T), int64);
  check(lengths.dtype() == int64 && lengths.shape() == Shape{B}, op, ": expected ", B,
        " lengths of int64, got ", lengths.dtype(), " ", lengths.shape());
  const auto least = min(lengths).item<int64_t>(), most = max(lengths).item<int64_t>();
  check(least >= 1 && most <= T, op, ": expected lengths 1 to ", T, ", got ", least, " to ", most);
  return lengths;
}

}  // namespace gradus::models
