// Trains a small network to classify digits: MNIST's, or any other images in IDX files.
//
//   build/bin/train_digits [--images FILE --labels FILE]      default: generated digits

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/digit_net.h"
#include "examples/support/drawn_digits.h"
#include "examples/support/text.h"
#include "examples/training/training.h"
#include "gradus/models/data/images/gzip.h"

using namespace gradus;

namespace {

struct Options {
  std::string images, labels;
  DigitNetConfig model;
  int64_t batch = 64;
};

Digits read_digits(const Options& o) {
  core::check(o.images.empty() == o.labels.empty(),
              "--images and --labels: expected both or neither");
  if (o.images.empty()) return drawn_digits(10000, 0);
  const Digits digits{models::read_idx(o.images) / 255, models::read_idx(o.labels, int64)};
  core::check(digits.images.rank() >= 2 && digits.labels.rank() == 1 &&
                  digits.images.size(0) == digits.labels.size(0) && digits.images.size(0) >= 5,
              "expected images (n, height, width) and labels (n), n >= 5, got ",
              digits.images.shape(), " and ", digits.labels.shape());
  return digits;
}

/// The first four fifths are the training set, the last fifth the validation set.
class DigitTask : public Task {
 public:
  DigitTask(const Options& options, const TrainOptions& training)
      : o_(options),
        training_(training),
        digits_(read_digits(o_)),
        first_(digits_.labels.size(0) * 4 / 5),
        batches_({digits_.images.slice(0, 0, first_), digits_.labels.slice(0, 0, first_)},
                 {.size = o_.batch, .seed = training.seed}),
        model_(config()) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override;
  Tensor loss(int64_t step, int64_t index) override {
    const auto [x, y] = batches_.at(step * training_.accumulate + index);
    return cross_entropy(model_(x), y);
  }
  Evaluation estimate(Split part, int64_t) override {
    return part == Split::train ? over(0, std::min(first_, training_.eval_batches * o_.batch))
                                : validation();
  }
  Evaluation validation() override { return over(first_, digits_.labels.size(0)); }
  void save(const std::string& dir) const override { models::save_model(dir, model_); }
  void show() override;

 private:
  DigitNetConfig config() const {
    DigitNetConfig config = o_.model;
    config.pixels = digits_.images[0].numel();
    config.classes = std::max<int64_t>(10, digits_.labels.max().item<int64_t>() + 1);
    return config;
  }
  Evaluation over(int64_t begin, int64_t end) const {
    return classification([this](const Tensor& x) { return model_(x); },
                          digits_.images.slice(0, begin, end), digits_.labels.slice(0, begin, end));
  }

  const Options o_;
  const TrainOptions training_;
  const Digits digits_;
  const int64_t first_;  // index of the first validation image
  const models::Batches<2> batches_;
  DigitNet model_;
};

TaskInfo DigitTask::info() const {
  const int64_t n = digits_.labels.size(0);
  return {.model = "digits",
          .loss = "cross entropy",
          .items = "images",
          .batch_items = o_.batch,
          .data_id = o_.images.empty()
                         ? "drawn"
                         : fingerprint(read_file(internal::plain_or_packed(o_.images))) + ' ' +
                               fingerprint(read_file(internal::plain_or_packed(o_.labels))),
          .opening = "images " + (o_.images.empty() ? "drawn" : o_.images) + ": " +
                     with_commas(first_) + " train, " + with_commas(n - first_) +
                     " validate\nmodel  " + with_commas(model_.num_parameters()) + " parameters\n"};
}

/// Prints the first validation image that is misclassified.
void DigitTask::show() {
  const Tensor images = digits_.images.slice(0, first_), labels = digits_.labels.slice(0, first_);
  const Tensor predicted = model_(images).argmax(1), wrong = predicted != labels;
  if (wrong.max().item() == 0) return;
  const int64_t i = wrong.to(int64).argmax().item<int64_t>();
  std::printf("a %lld classified as a %lld:\n", labels[i].item<long long>(),
              predicted[i].item<long long>());
  for (int64_t row = 0; row < images.size(1); ++row) {
    for (const double ink : images[i][row].flatten().to_vector<double>())
      std::putchar(" .:+#"[static_cast<int>(ink * 4.999)]);
    std::putchar('\n');
  }
}

int run(int argc, char** argv) {
  Options o;
  TrainOptions training;
  training.out = "out/digits";
  Flags flags(
      "Trains a small network to classify digits.\n  train_digits --images FILE --labels FILE");
  flags.group("Model and data", true);
  flags.add("--images", o.images, "FILE",
            "IDX file of images; the last fifth is the validation set", "drawn digits");
  flags.add("--labels", o.labels, "FILE", "IDX file of labels", "drawn digits");
  flags.add("--batch", o.batch, 1, 1e6, "images per batch");
  flags.add(DigitNet::fields(o.model), {"pixels", "classes"});
  add_training_flags(flags, training);
  return run_training(argc, argv, flags, training,
                      {.kind = DigitNet::kind,
                       .config = DigitNet::fields(o.model),
                       .data_flags = {"--images", "--labels"},
                       .make_task = [&] { return std::make_unique<DigitTask>(o, training); }});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_digits", argc, argv, run); }
