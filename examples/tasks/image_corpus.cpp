#include "examples/tasks/image_corpus.h"

#include "examples/support/text.h"
#include "gradus/core/files/checksum.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/images/shapes.h"

namespace gradus {

using models::ImageData;

void add_flags(Flags& flags, ImageOptions& o) {
  flags.group("Images", true);
  flags.add("--data", o.data, "DATA",
            o.captioned
                ? "shapes:N, N drawn pictures with captions; the last fifth is the validation set"
                : "mnist:DIR (IDX files), cifar10:DIR, or shapes:N, N drawn pictures");
  flags.add("--batch", o.batch, 1, 65536, "images per batch");
  flags.add(models::AugmentOptions::fields(o.augment));
}

namespace {

/// Drawn pictures of one or two shapes; the last fifth is the test set, as in read_images.
ImageCorpus captioned_shapes(const std::string& data) {
  const bool drawn = data.starts_with("shapes:");
  const int64_t n = drawn ? models::parse_number<int64_t>(data.substr(7)).value_or(0) : 0;
  core::check(n >= 2, "--data: expected shapes:N with N >= 2 (other images have no captions), got ",
              shown(data));
  models::ShapeImages all = models::draw_shapes(0, n);
  const int64_t train = n - (n + 4) / 5;
  return {models::split_images(all.images, train),
          {all.captions.begin(), all.captions.begin() + train},
          {all.captions.begin() + train, all.captions.end()},
          "",
          ""};
}

/// A checksum of all images, labels and captions.
std::string fingerprint_of(const ImageCorpus& corpus) {
  internal::Checksum sum;
  std::string texts;
  for (const ImageData* part : {&corpus.images.train, &corpus.images.test}) {
    for (const int64_t size : part->shape()) texts += std::to_string(size) + ' ';
    for (int64_t i = 0; i < part->size(); ++i) {
      const std::vector<uint8_t> bytes = part->image(i).bytes;
      sum.add(bytes.data(), bytes.size());
      texts += std::to_string(part->label(i)) + ' ';
    }
    for (const std::string& name : part->class_names()) texts += name + '\n';
  }
  for (const Split part : {Split::train, Split::validation})
    for (const std::string& caption : corpus.captions(part)) texts += caption + '\n';
  return sum.digits() + ' ' + fingerprint(texts);
}

}  // namespace

ImageCorpus read_image_corpus(const ImageOptions& o) {
  o.augment.check();
  ImageCorpus corpus = o.captioned ? captioned_shapes(o.data)
                                   : ImageCorpus{models::read_images(o.data), {}, {}, "", ""};
  const Shape shape = corpus.images.train.shape();
  corpus.about = "images " + o.data + ": " + with_commas(shape[0]) + " train, " +
                 with_commas(corpus.images.test.size()) + " validate; " + std::to_string(shape[2]) +
                 " x " + std::to_string(shape[3]) + (shape[1] == 1 ? " grey, " : " coloured, ") +
                 with_commas(corpus.images.train.classes()) + " classes\n";
  corpus.id = fingerprint_of(corpus);
  return corpus;
}

}  // namespace gradus
