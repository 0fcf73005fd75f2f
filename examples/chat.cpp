// Talks with a GPT that answers messages, line by line.
//
//   build/bin/chat --model DIR      a model tuned by train_gpt --data FILE.jsonl, or one in Hugging
//                                   Face's format, or a GGUF file, tuned on conversations

#include <gradus/gradus.h>
#include <unistd.h>

#include <iostream>

#include "examples/support/cli.h"
#include "examples/support/sampling.h"
#include "examples/support/text.h"

using namespace gradus;

namespace {

/// Returns the chat template in the folder or GGUF file `path`, from which `writer` was loaded.
const models::ChatTemplate& template_in(const std::string& path, const Writer& writer) {
  if (!models::is_gguf(path)) return models::find_chat_template(path, *writer.tokenizer);
  return models::match_chat_template(writer.text.chat_template, *writer.tokenizer, path);
}

/// Writes an answer to the conversation as it is generated, and returns it without line breaks at
/// its end.
std::string answer(const Writer& writer, const models::ChatTemplate& form,
                   const models::Conversation& conversation, models::Decoder& decoder,
                   models::GenerateOptions options) {
  models::StopText shown({models::end_of_answer(form)});
  TokenText text(*writer.tokenizer);
  std::string all;
  auto show = [&](const std::string& piece) {
    all += piece;
    print_now(piece);
  };
  options.on_token = [&](int64_t id) { show(shown.add(text.add(id))); };
  options.stop_if = [&] { return shown.stopped(); };
  const auto prompt = models::encode_chat(*writer.tokenizer, form, conversation, true);
  models::generate(decoder, prompt.ids, options);
  show(shown.rest());
  print_now("\n");
  while (all.ends_with('\n')) all.pop_back();
  return all;
}

int run(int argc, char** argv) {
  WriterOptions o;
  o.text.tokens = 500;
  std::string system, form_name;
  Flags flags(
      "Answers messages, one per line, with a model tuned on conversations. /new begins a new\n"
      "conversation; the end of the input (Ctrl-D) ends the program.\n"
      "  chat --model DIR");
  flags.group("Conversation");
  add_model_flags(flags, o);
  flags.add("--system", system, "TEXT", "system message of each conversation", "none");
  flags.add("--chat-template", form_name, "NAME",
            "template of messages: plain, chatml, llama2, llama3 or mistral", "the model's");
  flags.add("--tokens", o.text.tokens, 1, 1e15, "maximum tokens of an answer");
  add_sampling_flags(flags, o);
  if (!flags.parse(argc, argv)) return 0;

  const PrecisionScope precision(o.precision);
  const Writer writer = load_writer(o);
  const models::ChatTemplate& form =
      form_name.empty() ? template_in(o.model, writer) : models::chat_template(form_name);
  const models::Conversation beginning =
      system.empty() ? models::Conversation{} : models::Conversation{{"system", system}};
  models::Conversation conversation = beginning;
  auto decoder = writer.model.decoder();
  std::vector<int64_t> held;
  o.text.held = &held;
  const bool asks = isatty(STDIN_FILENO) == 1;
  for (std::string line; print_now(asks ? "> " : ""), std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (line == "/new") {
      conversation = beginning;
      continue;
    }
    conversation.push_back({"user", line});
    try {
      conversation.push_back({"assistant", answer(writer, form, conversation, decoder, o.text)});
    } catch (const Error& error) {  // for example a character that the model does not know
      if (!asks) throw;
      std::printf("%s\n", error.what());
      conversation.pop_back();
    }
    ++o.text.seed;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("chat", argc, argv, run); }
