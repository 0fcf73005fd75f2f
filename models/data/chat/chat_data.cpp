#include "gradus/models/data/chat/chat_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/models/data/draws.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

using nlohmann::json;

namespace {

constexpr int64_t ignored = -100;  // a target that cross_entropy ignores

Conversation conversation_of(const json& line) {
  check(line.is_object(), "expected an object, got ", shown(line));
  Conversation all;
  if (line.contains("messages")) {
    check(line["messages"].is_array(), "messages: expected an array, got ",
          shown(line["messages"]));
    for (const json& message : line["messages"]) {
      check(message.is_object(), "messages: expected objects, got ", shown(message));
      all.push_back({json_text(message, "role"), json_text(message, "content")});
    }
  } else {
    if (line.contains("system")) all.push_back({"system", json_text(line, "system")});
    all.push_back({"user", json_text(line, "prompt")});
    all.push_back({"assistant", json_text(line, "answer")});
  }
  check(!all.empty(), "messages: expected at least one");
  return all;
}

}  // namespace

std::vector<Conversation> read_chats(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<Conversation> all;
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const std::string line(internal::next_line(text, at));
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    naming(path + ": line " + std::to_string(number),
           [&] { all.push_back(conversation_of(parse_json("the line", line))); });
  }
  check(!all.empty(), path, ": expected a conversation per line, got none");
  return all;
}

ChatData::ChatData(const std::vector<Conversation>& conversations, const Tokenizer& tokenizer,
                   const ChatTemplate& form, int64_t context)
    : context_(context) {
  check(context > 0, "ChatData: expected a context > 0, got ", context);
  for (size_t i = 0; i < conversations.size(); ++i) {
    const ChatTokens tokens = naming("ChatData: conversation " + std::to_string(i + 1), [&] {
      return encode_chat(tokenizer, form, conversations[i]);
    });
    // The first token is never a target.
    const auto targets = tokens.answers.begin() + !tokens.answers.empty();
    const int64_t answers = std::count(targets, tokens.answers.end(), true);
    if (answers == 0 || std::ssize(tokens.ids) - 1 > context) {
      ++left_out_;
      continue;
    }
    answer_tokens_ += answers;
    all_.push_back(std::move(tokens));
  }
  check(!all_.empty(), "ChatData: none of ", conversations.size(),
        " conversations has an answer and fits a context of ", context);
  int64_t used = 0;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (rows_.empty() || size(i) > context - used) rows_.emplace_back(), used = 0;
    rows_.back().push_back(i);
    used += size(i);
  }
}

PackedBatch ChatData::random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                                   int64_t index) const {
  const RandomKey key = internal::batch_key("ChatData", "rows", {split, batch, seed, step, index});
  internal::Draws draws = internal::row_draws(key, 0);  // for all rows
  const auto draw = [&] { return static_cast<size_t>(draws.below(num_examples())); };
  std::vector<std::vector<size_t>> rows(static_cast<size_t>(batch));
  size_t next = draw();
  // As if rows came before the batch, the last of which may leave a draw for the first row. An even
  // or odd number of them, because long and short conversations may alternate.
  const int64_t before = 8 + static_cast<int64_t>(draws.below(2));
  for (int64_t row = 0; row < before; ++row)
    for (int64_t used = 0; size(next) <= context_ - used; next = draw()) used += size(next);
  for (std::vector<size_t>& row : rows)
    for (int64_t used = 0; size(next) <= context_ - used; next = draw()) {
      row.push_back(next);
      used += size(next);
    }
  return pack(rows);
}

PackedBatch ChatData::rows(int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_rows() && batch > 0, "ChatData: expected rows from 0 to ",
        num_rows() - 1, ", got ", batch, " from ", first);
  const auto begin = rows_.begin() + first;
  return pack({begin, begin + std::min(batch, num_rows() - first)});
}

PackedBatch ChatData::pack(const std::vector<std::vector<size_t>>& rows) const {
  const Shape shape{std::ssize(rows), context_};
  std::vector<int64_t> inputs, targets, positions;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const size_t i : rows[row]) {
      const ChatTokens& example = all_[i];
      for (size_t t = 0; t + 1 < example.ids.size(); ++t) {
        inputs.push_back(example.ids[t]);
        targets.push_back(example.answers[t + 1] ? example.ids[t + 1] : ignored);
        positions.push_back(static_cast<int64_t>(t));
      }
    }
    // The rest of the row is one more example, from which nothing is learned.
    for (int64_t t = 0; std::ssize(inputs) < (static_cast<int64_t>(row) + 1) * context_; ++t) {
      inputs.push_back(0);
      targets.push_back(ignored);
      positions.push_back(t);
    }
  }
  return {from_data(inputs, shape), from_data(targets, shape), from_data(positions, shape)};
}

}  // namespace gradus::models
