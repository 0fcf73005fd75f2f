// The small models that need no data: variational_autoencoder, diffusion, reinforce, word_vectors.

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "examples/pictures/plot.h"
#include "examples/support/drawn_digits.h"
#include "gradus/core/files/file.h"
#include "gradus/core/ops/ops.h"
#include "tests/support/packed.h"
#include "tests/support/programs.h"

namespace small_models_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// The numbers that follow `what` in the text.
std::vector<double> numbers_after(const std::string& text, const std::string& what) {
  std::vector<double> numbers;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
    numbers.push_back(std::stod(text.substr(at + what.size())));
  return numbers;
}

/// Runs the program into the folder's out/.
Result run_into(const TemporaryFolder& folder, const std::string& program,
                const std::string& flags) {
  const Result result = run(program, flags + " --out '" + (folder / "out") + "'");
  INFO(result.output);
  CHECK(result.status == 0);
  return result;
}

/// Runs the program twice with one seed and once with another.
void check_seeds(const std::string& program, const std::string& flags) {
  const TemporaryFolder folder;
  const std::string first = run_into(folder, program, flags + " --seed 3").output;
  CHECK(run_into(folder, program, flags + " --seed 3").output == first);
  CHECK(run_into(folder, program, flags + " --seed 4").output != first);
}

/// The program refuses the flags in one line that contains `why`, and writes nothing.
void check_refused(const std::string& program, const std::string& flags, const std::string& why) {
  const TemporaryFolder folder;
  const Result result = run(program, flags + " --out '" + (folder / "out") + "'");
  INFO(flags << '\n' << result.output);
  CHECK(result.status == 1);
  CHECK_THAT(result.output, Contains(program + ": ") && Contains(why));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  CHECK(!folder.has("out/words.png"));
}

/// Writes n images of 4 x 4 pixels with MNIST's file names, of which the first four fifths are
/// training images. Returns a flag that names the folder.
std::string small_mnist(const TemporaryFolder& folder, size_t n) {
  write_file_atomically(
      folder / "train-images-idx3-ubyte",
      bytes_of({0, 0, 8, 3}) + big_endian(n) + big_endian(4) + big_endian(4) + noise(16 * n));
  write_file_atomically(folder / "train-labels-idx1-ubyte",
                        bytes_of({0, 0, 8, 1}) + big_endian(n) + std::string(n, '\3'));
  return "--data 'mnist:" + folder.path.string() + "'";
}

}  // namespace

TEST_CASE("variational_autoencoder: the bound rises from that of a coin per pixel", "[learns]") {
  const TemporaryFolder folder;
  const Result result =
      run_into(folder, "variational_autoencoder", "--steps 100 --hidden 64 --batch 50");
  const std::vector<double> bound = numbers_after(result.output, "ELBO");
  REQUIRE(bound.size() == 11);
  // Untrained, each pixel has a probability of about 1/2: 784 ln 2 = 543.4 nats an image.
  CHECK(std::abs(bound[0] + 543.4) < 6);
  CHECK(bound[10] > bound[0] + 150);
  CHECK(numbers_after(result.output, "reconstruction - ").back() > 0);  // KL
  for (const char* name : {"reconstructions", "codes", "plane"})
    CHECK(folder.has("out/" + std::string(name) + ".png"));
  CHECK_THAT(run("variational_autoencoder", "--help").output, Contains("--latent"));
}

TEST_CASE("variational_autoencoder: flags") {
  check_seeds("variational_autoencoder", "--steps 2 --hidden 8 --batch 4");
  const TemporaryFolder folder;
  run_into(folder, "variational_autoencoder", "--steps 1 --hidden 8 --batch 1 --latent 3");
  CHECK(folder.has("out/codes.png"));
  CHECK(!folder.has("out/plane.png"));  // only two numbers make a plane
  check_refused("variational_autoencoder", "--latent 1", "--latent");
  check_refused("variational_autoencoder", "--data mnist:/nowhere", "/nowhere");
  check_refused("variational_autoencoder", "--data shapes:50", "expected grey images");
}

TEST_CASE("variational_autoencoder: holds out a share of few images") {
  const TemporaryFolder folder;
  const std::string few = small_mnist(folder, 190);  // 152 training images, of which 30 validate
  const Result result =
      run_into(folder, "variational_autoencoder", few + " --steps 1 --hidden 8 --batch 4");
  CHECK(std::isfinite(numbers_after(result.output, "ELBO").at(0)));
  CHECK(folder.has("out/reconstructions.png"));
  for (const size_t n : {185, 2})
    check_refused("variational_autoencoder", small_mnist(folder, n),
                  "--data: expected at least 150 images, to hold out and show 30, got " +
                      std::to_string(n * 4 / 5));
}

TEST_CASE("diffusion: the loss falls below that of predicting no noise", "[learns]") {
  const TemporaryFolder folder;
  const Result result =
      run_into(folder, "diffusion", "--steps 250 --channels 8 --batch 16 --levels 30");
  const std::vector<double> losses = numbers_after(result.output, "steps ");
  REQUIRE(losses.size() == 10);
  CHECK(losses[0] > 0.7);  // the noise has variance 1, and predicting 0 costs 1
  CHECK(losses[9] < 0.5);
  CHECK(folder.has("out/denoising.png"));
}

TEST_CASE("diffusion: flags") {
  check_seeds("diffusion", "--steps 1 --channels 4 --batch 2 --levels 25");
  check_refused("diffusion", "--channels 6", "--channels: expected a multiple of 4, got 6");
  check_refused("diffusion", "--levels 24", "--levels");
}

TEST_CASE("reinforce: the cart moves by the equations of motion") {
  const TemporaryFolder folder;
  const Result result = run_into(folder, "reinforce", "--steps 1 --episodes 2");
  // From Barto, Sutton & Anderson's equations, worked out with a calculator: sin 0.05 = 0.04997917,
  // cos 0.05 = 0.99875026, (10 + 0.05 0.3^2 0.04997917) / 1.1 = 9.0911135;
  // spin' = (9.8 0.04997917 - 0.99875026 9.0911135) / (0.5 (4/3 - 0.1 0.99875026^2 / 1.1))
  //       = -8.5899562 / 0.6213257 = -13.8252;
  // velocity' = 9.0911135 + 0.05 13.8252 0.99875026 / 1.1 = 9.71875.
  // After 0.02 s: 0.1 - 0.004, -0.2 + 0.194375, 0.05 + 0.006, 0.3 - 0.276504.
  CHECK_THAT(result.output, Contains("pushed to the right: 0.0960, -0.0056, 0.0560, 0.0235\n"));
  CHECK(folder.has("out/returns.png"));
}

TEST_CASE("reinforce: learns to balance the pole", "[learns]") {
  const TemporaryFolder folder;
  const Result result = run_into(folder, "reinforce", "--seed 1");
  CHECK_THAT(result.output, Contains(", solved"));
  CHECK(numbers_after(result.output, "last 100: ").back() >= 475);
  CHECK(numbers_after(result.output, "last 100: ").front() < 100);
}

TEST_CASE("reinforce: flags") {
  check_seeds("reinforce", "--steps 10 --episodes 3");
  const TemporaryFolder folder;
  const std::string with = run_into(folder, "reinforce", "--steps 20 --episodes 3").output;
  for (const char* flag : {" --no-baseline", " --gamma 0.5", " --lr 0.001"})
    CHECK(run_into(folder, "reinforce", "--steps 20 --episodes 3" + std::string(flag)).output !=
          with);
  check_refused("reinforce", "--gamma 1", "--gamma");
  check_refused("reinforce", "--episodes 0", "--episodes");
}

TEST_CASE("word_vectors: words with the same contexts are neighbours", "[learns]") {
  const TemporaryFolder folder;
  // The cat does what the dog does, the car what the van does.
  std::string text;
  for (int i = 0; i < 200; ++i)
    for (const char* animal : {"cat", "dog"})
      for (const char* verb : {"eats fish", "hates rain", "chases birds"})
        text += "the " + std::string(animal) + " " + verb + ". The " +
                (animal[0] == 'c' ? "car" : "van") +
                (verb[0] == 'e' ? " needs fuel" : " blocks roads") + ".\n";
  write_file_atomically(folder / "text.txt", text);
  const std::string flags =
      "--data '" + (folder / "text.txt") + "' --steps 2000 --batch 64 --dim 8 --lr 0.02 --thin 1";
  const Result result = run_into(folder, "word_vectors", flags + " --window 2 cat dog van");
  CHECK_THAT(result.output, Contains("\ncat           dog ") && Contains("\ndog           cat ") &&
                                Contains("\nvan           car "));
  CHECK_THAT(result.output, Contains("by chance 4.1589"));  // ln 64
  CHECK(folder.has("out/words.png"));

  const std::string few = "--data '" + (folder / "text.txt") + "' --steps 2 --vocab 9";
  check_seeds("word_vectors", few + " cat");
  CHECK(run_into(folder, "word_vectors", few + " --thin 0.1").output !=
        run_into(folder, "word_vectors", few + " --thin 1").output);
  CHECK_THAT(run_into(folder, "word_vectors", few).output, Contains(" words of text, 9 different"));
  check_refused("word_vectors", few + " zebra", "expected words of the vocabulary, got \"zebra\"");
  check_refused("word_vectors", few + " --window 5000", "expected a text of more than 10000 words");
  check_refused("word_vectors", "--data /nowhere/text", "/nowhere/text");
}

TEST_CASE("digits of no variety differ only in their noise") {
  const Digits digits = drawn_digits(200, 5, 0);
  const Tensor first = digits.images[0];
  int64_t same = 0;
  for (int64_t i = 1; i < 200; ++i) {
    const double apart = abs(digits.images[i] - first).max().item();
    if (digits.labels[i].item<int64_t>() == digits.labels[0].item<int64_t>()) {
      ++same;
      CHECK(apart <= 0.6001);  // noise of at most 0.3 in each
    } else {
      CHECK(apart > 0.6001);
    }
  }
  CHECK(same > 5);
}

TEST_CASE("digits of a data set: its training images, with sides that are multiples of 4") {
  const TemporaryFolder folder;
  const auto mnist = [&](size_t height, size_t width) {
    write_file_atomically(folder / "train-images-idx3-ubyte",
                          bytes_of({0, 0, 8, 3}) + big_endian(10) + big_endian(height) +
                              big_endian(width) + std::string(10 * height * width, '\x33'));
    write_file_atomically(folder / "train-labels-idx1-ubyte",
                          bytes_of({0, 0, 8, 1}) + big_endian(10) + std::string(10, '\4'));
    return read_digits("mnist:" + folder.path.string());
  };
  const Digits digits = mnist(8, 4);
  CHECK(digits.images.shape() == Shape{8, 8, 4});  // four fifths of ten
  CHECK(digits.images[7][7][3].item() == Approx(0.2));
  CHECK(digits.labels.to_vector<int>() == std::vector<int>(8, 4));
  for (const auto& [height, width] : {std::pair<size_t, size_t>{6, 8}, {8, 6}})
    CHECK_THROWS_WITH(mnist(height, width), Contains("sides that are multiples of 4, got (8, 1, "));
}

TEST_CASE("images are tiled row by row", "[pictures]") {
  const Tensor images = arange(24).to(float32).reshape({6, 2, 2});
  const Tensor grid = tiled(images, 3);
  CHECK(grid.shape() == Shape{4, 6});
  CHECK(grid.to_vector<int>() == std::vector<int>{0,  1,  4,  5,  8,  9,  2,  3,  6,  7,  10, 11,
                                                  12, 13, 16, 17, 20, 21, 14, 15, 18, 19, 22, 23});
}

}  // namespace small_models_test
