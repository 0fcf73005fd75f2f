#include "gradus/models/data/chat/chat_data.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <set>

#include "gradus/core/core.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace chat_data_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::ChatData, models::Conversation, models::Split;

namespace {

const models::CharTokenizer tokenizer("\n :AUabcdefghijklmnopqrstuvwxyz");

Conversation pair(const std::string& prompt, const std::string& answer) {
  return {{"user", prompt}, {"assistant", answer}};
}
/// A conversation of 22 tokens, 21 inputs, plus those of prompt and answer.
const std::string around = "User: \nAssistant: \n\n";

/// The row's examples as text, each input followed by its target if there is one.
std::vector<std::string> examples(const models::PackedBatch& batch, int64_t row) {
  std::vector<std::string> all;
  for (int64_t t = 0; t < batch.inputs.size(1); ++t) {
    auto at = [&](const Tensor& x) { return x[row][t].item<int64_t>(); };
    if (at(batch.positions) == 0) all.emplace_back();
    CHECK(at(batch.positions) ==
          std::ssize(all.back()) - std::count(all.back().begin(), all.back().end(), '*'));
    all.back() += tokenizer.decode({at(batch.inputs)});
    if (at(batch.targets) == -100) continue;
    all.back() += '*';  // the next token is learned
    if (t + 1 < batch.inputs.size(1) &&
        at(batch.positions) + 1 == batch.positions[row][t + 1].item<int64_t>())
      CHECK(batch.inputs[row][t + 1].item<int64_t>() == at(batch.targets));
  }
  return all;
}

}  // namespace

TEST_CASE("conversations are packed into rows, and only answers are learned", "[chat]") {
  const int64_t length = std::ssize(around) + 2 - 1;  // of an example with a letter each
  const ChatData data({pair("a", "x"),
                       pair("b", "y"),
                       pair("c", "zz"),
                       {{"user", "d"}},
                       pair("a", std::string(200, 'x'))},
                      tokenizer, models::chat_template("plain"), 2 * length + 3);
  CHECK(data.num_examples() == 3);
  CHECK(data.num_left_out() == 2);  // no answer; too long
  CHECK(data.num_answer_tokens() == 3 + 3 + 4);
  REQUIRE(data.num_rows() == 2);
  const auto all = data.rows(0, 9);
  CHECK(all.inputs.shape() == Shape{2, 2 * length + 3});
  const std::string first = "User: a\nAssistant: *x*\n*", second = "User: b\nAssistant: *y*\n*";
  CHECK(examples(all, 0) ==
        std::vector<std::string>{first, second, std::string(3, tokenizer.decode({0})[0])});
  CHECK(examples(all, 1)[0] == "User: c\nAssistant: *z*z*\n*");
  CHECK(examples(all, 1).size() == 2);
  CHECK(data.rows(1, 1).inputs.shape() == Shape{1, 2 * length + 3});
  CHECK_THROWS_WITH(data.rows(2, 1), Contains("expected rows from 0 to 1"));

  const auto drawn = data.random_batch(Split::train, 40, 7, 3, 1);
  std::set<std::string> seen;
  for (int64_t row = 0; row < 40; ++row) {
    const auto parts = examples(drawn, row);
    CHECK(parts.size() >= 2);
    seen.insert(parts.begin(), parts.end());
  }
  CHECK(seen.contains(first));
  CHECK(seen.contains(second));
  auto same = [&](Split split, uint64_t seed, int64_t step, int64_t index) {
    return testing::difference(data.random_batch(split, 40, seed, step, index).inputs,
                               drawn.inputs) == 0;
  };
  CHECK(same(Split::train, 7, 3, 1));
  CHECK_FALSE(same(Split::validation, 7, 3, 1));
  CHECK_FALSE(same(Split::train, 8, 3, 1));
  CHECK_FALSE(same(Split::train, 7, 4, 1));
  CHECK_FALSE(same(Split::train, 7, 3, 2));
}

TEST_CASE("conversations fill a row to its last token", "[chat]") {
  const auto& plain = models::chat_template("plain");
  const int64_t length = std::ssize(around) + 2 - 1;
  const std::vector<Conversation> four{pair("a", "x"), pair("b", "y"), pair("c", "z"),
                                       pair("d", "w")};
  const ChatData one(four, tokenizer, plain, length), two(four, tokenizer, plain, 2 * length);
  CHECK(one.num_examples() == 4);
  CHECK(one.num_rows() == 4);
  CHECK(two.num_rows() == 2);
  CHECK(ChatData(four, tokenizer, plain, 2 * length - 1).num_rows() == 4);
  CHECK_THROWS_WITH(ChatData(four, tokenizer, plain, length - 1), Contains("none of 4"));
  const auto drawn = two.random_batch(Split::train, 10, 1, 0);
  for (int64_t row = 0; row < 10; ++row) CHECK(examples(drawn, row).size() == 2);
  CHECK_THROWS_WITH(two.rows(0, 0), Contains("expected rows from 0 to 1"));
  CHECK_THROWS_WITH(two.rows(-1, 1), Contains("expected rows from 0 to 1"));
}

TEST_CASE("conversations of every length are drawn equally often", "[chat]") {
  std::vector<Conversation> ten{pair("a", std::string(75, 'x'))};
  for (char letter = 'b'; letter <= 'j'; ++letter) ten.push_back(pair({letter}, "yy"));
  const auto& plain = models::chat_template("plain");
  const int64_t context = 100;
  const ChatData data(ten, tokenizer, plain, context);
  // The prompts of the examples in each row of a batch.
  auto prompts = [&](int64_t rows, int64_t step) {
    const auto drawn = data.random_batch(Split::train, rows, 1, step);
    const auto inputs = drawn.inputs.to_vector<int64_t>(),
               positions = drawn.positions.to_vector<int64_t>();
    std::vector<std::string> all(static_cast<size_t>(rows));
    const auto length = static_cast<size_t>(context), prompt = std::string("User: ").size();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (positions[i] != static_cast<int64_t>(prompt)) continue;
      const std::string input = tokenizer.decode({inputs[i]});
      if (input >= "a" && input <= "j") all[i / length] += input;
    }
    return all;
  };
  for (const int64_t batch : {1, 4000}) {
    std::map<char, int> counts;
    for (int64_t step = 0; step < 4000 / batch; ++step)
      for (const std::string& row : prompts(batch, step)) {  // of 95 tokens, or up to four of 22
        CHECK(((row == "a") || (row.size() <= 4 && row.find('a') == std::string::npos)));
        for (const char prompt : row) ++counts[prompt];
      }
    for (const auto& [prompt, count] : counts) {
      CAPTURE(batch, prompt, count);
      CHECK(std::abs(count - 1100) < 200);
    }
    CHECK(counts.size() == 10);
  }
}

TEST_CASE("a context may be larger than any row", "[chat]") {
  const auto& plain = models::chat_template("plain");
  const ChatData data({pair("a", "b"), pair("c", "d")}, tokenizer, plain,
                      std::numeric_limits<int64_t>::max());
  CHECK(data.num_rows() == 1);
  CHECK(data.num_examples() == 2);
}

TEST_CASE("conversations that cannot be used are refused", "[chat]") {
  const auto& plain = models::chat_template("plain");
  CHECK_THROWS_WITH(ChatData({pair("a", "b")}, tokenizer, plain, 5),
                    "ChatData: none of 1 conversations has an answer and fits a context of 5");
  CHECK_THROWS_WITH(ChatData({}, tokenizer, plain, 50), Contains("none of 0 conversations"));
  // A single token has nothing to predict.
  const models::ChatTemplate bare{.name = "bare", .system = {}, .user = {}, .assistant = {}};
  CHECK_THROWS_WITH(ChatData({pair("", "b")}, tokenizer, bare, 5), Contains("none of 1"));
  CHECK(ChatData({pair("", "b"), pair("", "bc")}, tokenizer, bare, 5).num_answer_tokens() == 1);
  CHECK_THROWS_WITH(ChatData({pair("a", "b")}, tokenizer, plain, 0), Contains("a context > 0"));
  CHECK_THROWS_WITH(
      ChatData({pair("a", "b"), {{"assistant", "b"}}}, tokenizer, plain, 50),
      Contains("ChatData: conversation 2: a conversation is a system message or none"));
}

TEST_CASE("conversations are read from JSON lines", "[chat]") {
  const TemporaryFolder folder;
  const std::string path = folder / "chat.jsonl";
  auto read = [&](const std::string& text) {
    write_file_atomically(path, text);
    return models::read_chats(path);
  };
  const auto all = read(
      "{\"prompt\": \"a\", \"answer\": \"b\", \"id\": 3}\r\n\n  \n"
      "{\"answer\": \"\\u00e9\\n\", \"prompt\": \"\", \"system\": \"s\"}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"c\", \"name\": \"n\"}]}");
  CHECK(all == std::vector<Conversation>{pair("a", "b"),
                                         {{"system", "s"}, {"user", ""}, {"assistant", "\u00e9\n"}},
                                         {{"user", "c"}}});
  auto error = [&](const std::string& text) {
    const std::string message = testing::error_of([&] { read(text); });
    return message.substr(std::min(message.size(), message.find("chat.jsonl")));
  };
  const std::string good = "{\"prompt\": \"a\", \"answer\": \"b\"}\n";
  CHECK(error("") == "chat.jsonl: expected a conversation per line, got none");
  CHECK_THAT(error(good + "{\"prompt\": \"a\"}"),
             Contains("chat.jsonl: line 2: ") && Contains("answer"));
  CHECK_THAT(error(good + "\n" + good + "[]"), Contains("line 4: expected an object, got []"));
  CHECK_THAT(error("{\"prompt\": 1, \"answer\": \"b\"}"),
             Contains("line 1: ") && Contains("prompt"));
  CHECK_THAT(error("{\"messages\": 4}"), Contains("messages: expected an array, got 4"));
  CHECK_THAT(error("{\"messages\": []}"), Contains("messages: expected at least one"));
  CHECK_THAT(error("{\"messages\": [3]}"), Contains("messages: expected objects, got 3"));
  CHECK_THAT(error("{\"messages\": [{\"role\": \"user\"}]}"), Contains("content"));
  CHECK_THAT(error("{\"prompt\": "), Contains("line 1: "));
}

}  // namespace chat_data_test
