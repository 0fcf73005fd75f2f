// Serves the page of finished runs, or of runs that are training, from the files in their folders.
//
//   build/bin/view_run DIR...

#include <gradus/gradus.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "examples/page/probes.h"
#include "examples/page/run_page.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/tokenizers.h"
#include "examples/training/interrupt.h"

using namespace gradus;

namespace {

template <class Model>
RunPage::Probe probe_of(const std::string& dir) {
  const auto model = std::make_shared<Model>(models::load_model<Model>(dir, {.new_heads = true}));
  const std::shared_ptr<models::Tokenizer> tokens = tokenizer_of(dir, *model);
  return [=](const Question& question) {
    Question asked = question;
    if (asked.text.empty()) asked.text = tokens->decode({tokens->vocab_size() - 1});
    return probe(*model, *tokens, asked);
  };
}

/// Answers questions about the model in a run's folder; empty unless it can be read and reads text.
RunPage::Probe probe_for(const std::string& dir) {
  try {
    const std::string kind = models::model_kind(dir);
    if (kind == models::GPT::kind) return probe_of<models::GPT>(dir);
    if (kind == models::Bert::kind) return probe_of<models::Bert>(dir);
    if (kind == models::Transformer::kind) return probe_of<models::Transformer>(dir);
    if (kind == models::RNNTranslator::kind) return probe_of<models::RNNTranslator>(dir);
  } catch (const Error& error) {
    std::printf("no answers about the model: %s\n", error.what());
  }
  return {};
}

int run(int argc, char** argv) {
  using namespace std::chrono_literals;
  std::vector<std::string> folders;
  int64_t port = 8080;
  Flags flags(
      "Serves a page that shows a run, or several side by side, to this machine's browsers.\n"
      "  view_run DIR...");
  flags.group("Options");
  flags.add("--port", port, 0, 65535, "port; 0: any free one");
  flags.rest(folders);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!folders.empty(), "expected the folder of a run (see --help)");
  std::vector<std::unique_ptr<RunView>> views;
  std::vector<RunView*> pointers;
  for (const std::string& folder : folders) {
    core::check(std::filesystem::exists(folder + "/steps.csv"), folder,
                " holds no run: expected steps.csv in it");
    views.push_back(std::make_unique<RunView>(folder));
    views.back()->refresh();
    pointers.push_back(views.back().get());
  }
  // A model is loaded when it is first asked, and again once its file has changed.
  std::vector<std::pair<std::filesystem::file_time_type, RunPage::Probe>> probes(folders.size());
  const RunPage::Probe probe = [&](const Question& question) -> std::string {
    const std::string& dir = folders[static_cast<size_t>(question.run)];
    auto& [time, answer] = probes[static_cast<size_t>(question.run)];
    std::error_code missing;
    const auto now = std::filesystem::last_write_time(models::weights_path(dir), missing);
    if (!answer || now != time) answer = probe_for(dir);
    time = now;
    return answer ? answer(question) : "{\"kind\":\"none\"}";
  };
  const std::string title =
      folders.size() == 1 ? folders[0] : std::to_string(folders.size()) + " runs";
  RunPage page({.port = port, .title = title, .loss = "loss"}, pointers);
  catch_interrupts();
  std::printf("page   %s   (Ctrl-C ends it)\n", page.address().c_str());
  std::fflush(stdout);
  const NoGrad no_grad;
  const EvalMode eval;
  for (int64_t i = 0; !interrupted(); ++i) {
    page.answer(0, probe, true);
    if (i % 20 == 0)
      for (const auto& view : views) view->refresh();
    std::this_thread::sleep_for(50ms);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("view_run", argc, argv, run); }
