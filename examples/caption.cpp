// Captions pictures with a model trained by train_caption.
//
//   build/bin/caption --model DIR IMAGE.png ...

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/pictures/heat_map.h"
#include "examples/support/cli.h"
#include "examples/support/picture_file.h"

using namespace gradus;

namespace {

PictureReader load(const std::string& folder, int64_t beams) {
  const auto model =
      std::make_shared<models::Captioner>(models::load_model<models::Captioner>(folder));
  model->to(float32);
  const models::CaptionerConfig& c = model->config;
  const std::shared_ptr<models::Tokenizer> tokenizer =
      models::load_tokenizer(models::tokenizer_path(folder));
  core::check(tokenizer->vocab_size() == c.vocab, models::tokenizer_path(folder), ": ",
              tokenizer->vocab_size(), " tokens, the model has ", c.vocab);
  const models::BeamSearchOptions options{.start = tokenizer->special("[START]"),
                                          .stop = tokenizer->special("[END]"),
                                          .beams = beams,
                                          .tokens = c.context - 1};
  return {c.image, c.channels, models::load_image_info(folder), [=](const Tensor& picture) {
            const auto best = model->captions(picture, options);
            return ": " + visible(tokenizer->decode(best[0].tokens), false) + '\n';
          }};
}

int run(int argc, char** argv) {
  int64_t beams = 4;
  Flags flags(
      "Captions pictures with a model trained by train_caption.\n"
      "  caption --model DIR IMAGE.png ...");
  flags.group("Flags");
  flags.add("--beams", beams, 1, 1000, "beam width");
  return read_pictures(argc, argv, flags, "out/caption",
                       [&](const std::string& folder) { return load(folder, beams); });
}

}  // namespace

int main(int argc, char** argv) { return run_program("caption", argc, argv, run); }
