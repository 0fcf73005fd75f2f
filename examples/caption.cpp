// Says what pictures show, in words, by a model that train_caption wrote.
//
//   build/bin/caption --model DIR IMAGE.png ...

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/heat_map.h"
#include "examples/support/picture_file.h"

using namespace gradus;

namespace {

int run(int argc, char** argv) {
  std::string folder = "out/caption";
  std::vector<std::string> paths;
  int64_t beams = 4, threads = num_threads();
  Flags flags(
      "Says what pictures show: a caption of each.\n"
      "  caption --model DIR IMAGE.png ...");
  flags.group("Flags");
  flags.add("--model", folder, "DIR", "folder that train_caption wrote");
  flags.add("--beams", beams, 1, 1000, "captions kept side by side while one is found");
  flags.add("--threads", threads, 1, 1024, "threads to compute with");
  flags.rest(paths);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!paths.empty(), "expected PNG files (--help says more)");
  set_num_threads(static_cast<int>(threads));

  models::Captioner model = models::load_model<models::Captioner>(folder);
  model.to(float32);
  const models::CaptionerConfig& c = model.config;
  const auto tokenizer = models::load_tokenizer(models::tokenizer_path(folder));
  core::check(tokenizer->vocab_size() == c.vocab, models::tokenizer_path(folder), ": ",
              tokenizer->vocab_size(), " tokens, the model has ", c.vocab);
  const models::ImageInfo info = image_info_of(folder, c.channels);
  const models::BeamSearchOptions options{.start = tokenizer->special("[START]"),
                                          .stop = tokenizer->special("[END]"),
                                          .beams = beams,
                                          .tokens = c.context - 1};
  std::vector<Tensor> images;
  for (const std::string& path : paths) images.push_back(read_picture(path, c.image, c.channels));
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto said =
        model.captions(models::normalize(images[i].unsqueeze(0), info.stats), options);
    std::printf("%s: %s\n", paths[i].c_str(),
                visible(tokenizer->decode(said[0].tokens), false).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("caption", argc, argv, run); }
