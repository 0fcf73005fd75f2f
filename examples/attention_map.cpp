// Draws the attention maps of a trained GPT, BERT or translator, as a picture and as an interactive
// page for a browser.
//
//   build/bin/attention_map --model DIR --text "..." --html FILE

#include <gradus/gradus.h>

#include <cstdio>
#include <filesystem>

#include "examples/pictures/attention_page.h"
#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"
#include "examples/support/text.h"
#include "examples/support/tokenizers.h"

using namespace gradus;

namespace {

struct Options {
  std::string model = "out/train", text = "the cat sat on the mat", target,
              out = "out/attention.png", html;
};
using Ids = std::vector<int64_t>;

/// The tokenizer in a model's folder.
class Tokens {
 public:
  Tokens(const std::string& dir, int64_t vocab) : tokenizer_(load_tokenizer_for(dir, vocab)) {}
  const models::Tokenizer& operator*() const { return *tokenizer_; }
  const models::Tokenizer* operator->() const { return tokenizer_.get(); }
  /// Encodes a flag's text. Throws Error unless it has 1 to `most` tokens.
  Ids encode(const std::string& flag, const std::string& text, int64_t most) const {
    const Ids ids = tokenizer_->encode(text);
    core::check(!ids.empty() && std::ssize(ids) <= most, flag, ": expected 1 to ", most,
                " tokens, got ", ids.size());
    return ids;
  }
  std::vector<std::string> names(const Ids& ids) const { return token_texts(*tokenizer_, ids); }

 private:
  std::unique_ptr<models::Tokenizer> tokenizer_;
};

/// The ids as a batch of one, (1, T).
Tensor batch_of(const Ids& ids) { return from_data(ids, {1, std::ssize(ids)}); }

std::vector<AttentionGroup> look(const models::GPT& model, const Tokens& tokens, const Options& o) {
  const Ids ids = tokens.encode("--text", o.text, model.config.context);
  const AttentionTrace trace;
  model(batch_of(ids));
  return {
      {"self-attention", tokens.names(ids), tokens.names(ids), stacked_layers(trace.weights())}};
}

std::vector<AttentionGroup> look(const models::Bert& model, const Tokens& tokens,
                                 const Options& o) {
  Ids ids = tokens.encode("--text", o.text, model.config.context - 2);
  ids.insert(ids.begin(), tokens->special("[CLS]"));
  ids.push_back(tokens->special("[SEP]"));
  const AttentionTrace trace;
  model({batch_of(ids)});
  return {
      {"self-attention", tokens.names(ids), tokens.names(ids), stacked_layers(trace.weights())}};
}

/// A source text (--text) and its target: --target or, by default, the model's translation.
struct Translation {
  Ids source, inputs, outputs;  // inputs: [START] y; outputs: y [END]
};

template <class Model>
Translation translation(const Model& model, const Tokens& tokens, const Options& o) {
  const int64_t start = tokens->special("[START]"), stop = tokens->special("[END]"),
                most = model.config.context - 1;
  Translation t{tokens.encode("--text", o.text, model.config.context), {start}, {}};
  t.outputs = o.target.empty()
                  ? models::translate(model, batch_of(t.source), {},
                                      {.start = start, .stop = stop, .tokens = most})[0]
                        .tokens
                  : tokens.encode("--target", o.target, most);
  t.inputs.insert(t.inputs.end(), t.outputs.begin(), t.outputs.end());
  t.outputs.push_back(stop);
  std::printf("%s -> %s\n", o.text.c_str(),
              tokens->decode({t.inputs.begin() + 1, t.inputs.end()}).c_str());
  return t;
}

std::vector<AttentionGroup> look(const models::Transformer& model, const Tokens& tokens,
                                 const Options& o) {
  const Translation t = translation(model, tokens, o);
  const AttentionTrace trace;
  model(batch_of(t.source), {}, batch_of(t.inputs));
  // The trace holds the encoder's layers, then self- and cross-attention of each decoder layer.
  const auto layers = static_cast<size_t>(model.config.layers);
  std::vector<Tensor> encoder, own, cross;
  for (size_t i = 0; i < trace.weights().size(); ++i)
    (i < layers ? encoder : (i - layers) % 2 == 0 ? own : cross).push_back(trace.weights()[i]);
  const auto source = tokens.names(t.source), inputs = tokens.names(t.inputs);
  return {{"cross-attention", tokens.names(t.outputs), source, stacked_layers(cross)},
          {"encoder self-attention", source, source, stacked_layers(encoder)},
          {"decoder self-attention", inputs, inputs, stacked_layers(own)}};
}

std::vector<AttentionGroup> look(const models::RNNTranslator& model, const Tokens& tokens,
                                 const Options& o) {
  const Translation t = translation(model, tokens, o);
  const Tensor weights = model.alignment(batch_of(t.source), {}, batch_of(t.inputs));  // (1, T, S)
  return {{"attention to the source", tokens.names(t.outputs), tokens.names(t.source),
           weights.unsqueeze(0)}};
}

template <class Model>
std::vector<AttentionGroup> load_and_look(const Options& o) {
  // Attention maps need no head: a BERT's may be missing from the file.
  const auto model = models::load_model<Model>(o.model, {.new_heads = true});
  int64_t vocab = 0;
  if constexpr (requires { model.config.vocab; }) {
    vocab = model.config.vocab;
    core::check(o.target.empty(), "--target needs a translator; this model is a ", Model::kind);
  } else {
    vocab = model.config.target_vocab;
  }
  return look(model, Tokens(o.model, vocab), o);
}

/// The attention maps of the model in --model, which may be of any kind.
std::vector<AttentionGroup> groups_of(const Options& o) {
  const std::string kind = models::model_kind(o.model);
  if (kind == models::GPT::kind) return load_and_look<models::GPT>(o);
  if (kind == models::Bert::kind) return load_and_look<models::Bert>(o);
  if (kind == models::Transformer::kind) return load_and_look<models::Transformer>(o);
  if (kind == models::RNNTranslator::kind) return load_and_look<models::RNNTranslator>(o);
  core::fail(models::config_path(o.model), ": expected a gpt, bert, transformer or rnn, got ",
             shown(kind));
}

/// The path of a group's picture: out/attention.png, out/attention-2.png, and so on.
std::string picture_path(const std::string& path, size_t group) {
  if (group == 0) return path;
  const size_t dot = path.ends_with(".png") ? path.size() - 4 : path.size();
  return path.substr(0, dot) + '-' + std::to_string(group + 1) + ".png";
}

void check_paths(const Options& o) {
  const std::filesystem::path out = o.out;
  core::check(out.has_filename() && !std::filesystem::is_directory(out),
              "--out: expected a file, got ", shown(o.out));
  core::check(o.html != o.out, "--html: expected another file than --out");
}

int run(int argc, char** argv) {
  Options o;
  Flags flags(
      "Draws the attention maps of a trained GPT, BERT or translator, one row per layer.\n"
      "  attention_map --model DIR --text \"...\" --html FILE");
  flags.group("Input");
  flags.add("--model", o.model, "DIR", "folder written by a training program");
  flags.add("--text", o.text, "TEXT", "input text");
  flags.add("--target", o.target, "TEXT", "target text of a translator", "its own translation");
  flags.group("Output");
  flags.add("--out", o.out, "FILE", "picture; a translator also writes FILE-2 and FILE-3");
  flags.add("--html", o.html, "FILE", "interactive page for a browser", "none");
  if (!flags.parse(argc, argv)) return 0;
  const NoGrad no_grad;
  const EvalMode eval;
  const std::vector<AttentionGroup> groups = groups_of(o);
  check_paths(o);
  for (const std::string& file : {o.out, o.html}) make_folder_of(file);
  for (size_t i = 0; i < groups.size(); ++i) {
    const AttentionGroup& group = groups[i];
    const std::string title = group.name + ": layers from top to bottom, heads from left to right";
    std::printf("%s: %s\n", group.name.c_str(),
                draw_or_write(attention_grid(picture_path(o.out, i), title, group.weights,
                                             group.queries, group.keys))
                    .c_str());
  }
  if (o.html.empty()) return 0;
  write_attention_page(o.html, "Attention maps of " + o.model, groups);
  std::printf("page: %s\n", o.html.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("attention_map", argc, argv, run); }
