#include "examples/tasks/chat_corpus.h"

#include <algorithm>
#include <sstream>

#include "examples/support/source_text.h"
#include "examples/support/text.h"

namespace gradus {

using models::Conversation;

namespace {

/// Conversations of a file; errors name it.
std::optional<models::ChatData> data_of(const std::string& path,
                                        const std::vector<Conversation>& chats,
                                        const models::Tokenizer& tokenizer,
                                        const models::ChatTemplate& form, int64_t context) {
  return core::naming(path, [&] { return models::ChatData(chats, tokenizer, form, context); });
}

/// The first conversation that is more than a system message, up to its first question.
Conversation first_question(const std::vector<Conversation>& chats) {
  for (const Conversation& all : chats)
    for (auto m = all.begin(); m != all.end(); ++m)
      if (m->role == "user") return {all.begin(), m + 1};
  return {};
}

}  // namespace

ChatCorpus::ChatCorpus(const CorpusOptions& options, const std::string& begins_with,
                       const std::string& form, int64_t context)
    : o_(options), context_(context) {
  core::check(!o_.on_disk, "--on-disk: expected a text, got the conversations ", o_.data);
  std::vector<Conversation> train = models::read_chats(o_.data), validation;
  id_ = fingerprint(read_text(o_.data));
  if (o_.val_data.empty()) {
    core::check(train.size() > 1, o_.data, ": expected at least two conversations, got 1");
    const auto held_out = std::max<std::ptrdiff_t>(1, std::ssize(train) / 10);
    validation.assign(train.end() - held_out, train.end());
    train.resize(train.size() - static_cast<size_t>(held_out));
  } else {
    validation = models::read_chats(o_.val_data);
    id_ += ' ' + fingerprint(read_text(o_.val_data));
  }
  std::string text = "User:Assistant \n";  // what the plain template writes
  for (const auto* chats : {&train, &validation})
    for (const Conversation& chat : *chats)
      for (const models::Message& message : chat) text += message.content + '\n';
  tokenizer_ = make_tokenizer(o_.tokenizer, begins_with, text);
  const std::string folder = o_.tokenizer.folder(begins_with);
  form_ = form.empty() ? &models::find_chat_template(folder, *tokenizer_)
                       : &models::chat_template(form);
  core::check(form_->name != "plain" || !tokenizer_->encode(form_->assistant.after).empty(),
              o_.data, ": an empty line ends each answer, and the tokenizer drops line breaks: ",
              "expected one of characters or byte pairs");
  id_ += ' ' + form_->name;
  train_ = data_of(o_.data, train, *tokenizer_, *form_, context);
  const std::string& held_out = o_.val_data.empty() ? o_.data : o_.val_data;
  validation_ = data_of(held_out, validation, *tokenizer_, *form_, context);
  question_ = models::encode_chat(*tokenizer_, *form_, first_question(validation), true).ids;
}

double ChatCorpus::bytes(const Tensor& targets) const {
  std::vector<int64_t> ids = targets.to_vector<int64_t>();
  std::erase_if(ids, [&](int64_t id) { return id == -100 || tokenizer_->is_special(id); });
  return static_cast<double>(tokenizer_->decode(ids).size());
}

std::string ChatCorpus::opening() const {
  std::ostringstream out;
  out << "text   " << o_.data << ": " << with_commas(train_->num_examples())
      << " conversations train, " << (o_.val_data.empty() ? "the last " : "of " + o_.val_data + ' ')
      << with_commas(validation_->num_examples()) << " validate";
  if (const int64_t n = train_->num_left_out() + validation_->num_left_out(); n > 0)
    out << "; " << with_commas(n) << " are left out: longer than the context or without answer";
  out << "; chat template " << form_->name << '\n';
  return out.str();
}

}  // namespace gradus
