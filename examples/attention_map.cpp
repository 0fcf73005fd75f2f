// Draws the attention maps of a trained GPT, BERT or translator, as a picture and as an interactive
// page for a browser.
//
//   build/bin/attention_map --model DIR --text "..." --html FILE

#include <gradus/gradus.h>

#include <cstdio>
#include <filesystem>

#include "examples/page/attention_of.h"
#include "examples/pictures/heat_map.h"
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

template <class Model>
std::vector<AttentionGroup> load_and_look(const Options& o) {
  // Attention maps need no head: a BERT's may be missing from the file.
  const auto model = models::load_model<Model>(o.model, {.new_heads = true});
  if constexpr (requires { model.config.vocab; })
    core::check(o.target.empty(), "--target needs a translator; this model is a ", Model::kind);
  const auto tokens = tokenizer_of(o.model, model);
  AttentionOf found = attention_of(model, *tokens, {.text = o.text, .target = o.target});
  if (!found.translation.empty())
    std::printf("%s -> %s\n", visible(o.text, false).c_str(),
                visible(found.translation, false).c_str());
  return std::move(found.groups);
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

/// Throws Error unless --out is a file and --html another one than the pictures.
void check_paths(const Options& o) {
  using Path = std::filesystem::path;
  core::check(Path(o.out).has_filename() && !is_directory(Path(o.out)),
              "--out: expected a file, got ", shown(o.out));
  const auto place = [](const Path& path) { return weakly_canonical(absolute(path)); };
  for (size_t group = 0; group < 3 && !o.html.empty(); ++group)
    core::check(place(o.html) != place(picture_path(o.out, group)),
                "--html: expected another file than the pictures, got ", shown(o.html));
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
  flags.add("--out", o.out, "FILE", "picture; a transformer translator adds NAME-2 and NAME-3");
  flags.add("--html", o.html, "FILE", "interactive page for a browser", "none");
  if (!flags.parse(argc, argv)) return 0;
  check_paths(o);
  const NoGrad no_grad;
  const EvalMode eval;
  const std::vector<AttentionGroup> groups = groups_of(o);
  for (const std::string& file : {o.out, o.html}) make_folder_of(file);
  for (size_t i = 0; i < groups.size(); ++i) {
    const AttentionGroup& group = groups[i];
    const std::string title = group.name + ": layers from top to bottom, heads from left to right";
    const HeatMap map =
        attention_grid(picture_path(o.out, i), title, group.weights, group.queries, group.keys);
    std::printf("%s: %s\n", group.name.c_str(), draw_or_write(map).c_str());
  }
  if (o.html.empty()) return 0;
  write_attention_page(o.html, "Attention maps of " + o.model, groups);
  std::printf("page: %s\n", o.html.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("attention_map", argc, argv, run); }
