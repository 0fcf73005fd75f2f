// Fuzzes conversations in JSON lines, their packing into rows, and the chat templates of model
// folders.

#include <nlohmann/json.hpp>

#include "gradus/models/data/chat/chat_data.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace chats_fuzz {

using namespace gradus;
using namespace gradus::models;

namespace {

const BPETokenizer& bytes_and_marks() {
  static const BPETokenizer tokenizer = BPETokenizer::train(
      "the the", {.vocab_size = 259, .special = {"<|im_start|>", "<|im_end|>"}});
  return tokenizer;
}

std::vector<std::string> seeds() {
  return {
      "{\"prompt\":\"a b\",\"answer\":\"c\"}\n\n{\"system\":\"s\",\"prompt\":\"d\",\"answer\":"
      "\"\xc3\xa9\"}\r\n",
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},)"
      R"({"role":"assistant","content":"<|im_end|>"}],"source":1})"};
}

/// Checks that conversations written as messages are read back the same, and that the packed rows
/// hold every conversation that is in use.
void run(const std::string& bytes) {
  const std::vector<Conversation> all = read_chats(fuzz::write(bytes));
  std::string text;
  for (const Conversation& conversation : all) {
    nlohmann::json messages = nlohmann::json::array();
    for (const auto& [role, content] : conversation)
      messages.push_back({{"role", role}, {"content", content}});
    text += nlohmann::json{{"messages", messages}}.dump() + '\n';
  }
  fuzz::expect(read_chats(fuzz::write(text, "again")) == all, "other conversations");

  const ChatData data(all, bytes_and_marks(), chat_template("chatml"), 64);
  fuzz::expect(data.num_examples() + data.num_left_out() == std::ssize(all), "lost conversations");
  const PackedBatch rows = data.rows(0, data.num_rows());
  int64_t answers = 0;
  for (const int64_t target : rows.targets.to_vector<int64_t>()) {
    fuzz::expect(target == -100 || (target >= 0 && target < 259),
                 "a target outside the vocabulary");
    answers += target != -100;
  }
  fuzz::expect(answers == data.num_answer_tokens(), "other answers in the rows");
  data.random_batch(Split::train, 2, 1, 0);
}

std::vector<std::string> template_seeds() {
  return {R"({"chat_template":"{{'<|im_start|>' + message['role']}}<|im_end|>"})",
          R"({"chat_template":[{"name":"default","template":"[INST] {{ system }} <<SYS>>"}]})",
          R"({"chat_template":"<|start_header_id|>"})"};
}

void run_template(const std::string& bytes) {
  fuzz::write(bytes, "tokenizer_config.json");
  find_chat_template(fuzz::path_of(""), bytes_and_marks());
}

const fuzz::Register chats{{"chats", seeds, run, 2000}};
const fuzz::Register templates{{"chat_template", template_seeds, run_template, 1000}};

}  // namespace

}  // namespace chats_fuzz
