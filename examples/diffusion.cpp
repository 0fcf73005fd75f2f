// Denoising diffusion of digits (DDPM): Ho, Jain & Abbeel 2020, arXiv 2006.11239.
//
// Noise is added to an image x_0 in T small steps; after t of them, with alpha_t = 1 - beta_t and
// abar_t = alpha_1 ... alpha_t (equation 4),
//   x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps,    eps ~ N(0, I).
// A network learns to predict the noise from x_t and t (equation 14):
//   loss = E |eps - eps_theta(x_t, t)|^2.
// From pure noise x_T, sampling then removes the noise step by step (algorithm 2):
//   x_{t-1} = (x_t - beta_t / sqrt(1 - abar_t) eps_theta(x_t, t)) / sqrt(alpha_t) + sqrt(beta_t) z,
// with z ~ N(0, I), and z = 0 in the last step. The network also reads the digit's label, so that a
// given digit can be sampled.
//
//   build/bin/diffusion [--data mnist:DIR]      default: generated digits

#include <gradus/gradus.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/drawn_digits.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"

using namespace gradus;

namespace {

struct Options {
  std::string data, out = "out/diffusion";
  int64_t steps = 1200, batch = 64, channels = 32, levels = 400;
  uint64_t seed = 1;
};

/// beta_t and abar_t for t = 1 ... T, at index t - 1. beta grows linearly as in the paper, where T
/// is 1000; other T leave the same noise at the end.
struct Schedule {
  Tensor beta, kept;
  explicit Schedule(int64_t levels)
      : beta(linspace(1e-4, 0.02, levels) * (1000.0 / static_cast<double>(levels))),
        kept(exp(cumsum(log(1 - beta), 0))) {}
};

/// Two convolutions after normalisation, beside a shortcut; the time shifts each channel.
struct Block : nn::Module {
  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2, shortcut;
  nn::Linear time;
  Block(int64_t in, int64_t out, int64_t time_dim)
      : norm1(child("norm1", nn::GroupNorm(4, in))),
        norm2(child("norm2", nn::GroupNorm(4, out))),
        conv1(child("conv1", nn::Conv2d(in, out, 3, {.padding = 1}))),
        conv2(child("conv2", nn::Conv2d(out, out, 3, {.padding = 1}))),
        shortcut(child("shortcut", nn::Conv2d(in, out, 1))),
        time(child("time", nn::Linear(time_dim, out))) {}
  Tensor operator()(const Tensor& x, const Tensor& t) const {
    const Tensor h = conv1(silu(norm1(x))) + time(t).unsqueeze(-1).unsqueeze(-1);
    return shortcut(x) + conv2(silu(norm2(h)));
  }
};

/// A small U-Net (Ronneberger et al. 2015), from images (n, 1, H, W), times (n) and digits (n) to
/// the noise in the images. It works at half and at a quarter of the size; at a quarter each cell
/// is a token of a transformer, which plans the digit.
struct Denoiser : nn::Module {
  nn::SinusoidalPositions clock;
  nn::Embedding digits;
  nn::Linear time;
  nn::Conv2d in, down;
  Block half, quarter, joined;
  nn::LearnedPositions place;
  nn::Block plan1, plan2;
  nn::GroupNorm norm;
  nn::Conv2d out;
  Denoiser(int64_t levels, int64_t cells, int64_t c)
      : clock(child("clock", nn::SinusoidalPositions(levels, 2 * c))),
        digits(child("digits", nn::Embedding(10, 2 * c))),
        time(child("time", nn::Linear(2 * c, 2 * c))),
        in(child("in", nn::Conv2d(1, c, 4, {.stride = 2, .padding = 1}))),
        down(child("down", nn::Conv2d(c, 2 * c, 4, {.stride = 2, .padding = 1}))),
        half(child("half", Block(c, c, 2 * c))),
        quarter(child("quarter", Block(2 * c, 2 * c, 2 * c))),
        joined(child("joined", Block(3 * c, c, 2 * c))),
        place(child("place", nn::LearnedPositions(cells, 2 * c))),
        plan1(child("plan1", nn::Block(2 * c, {.heads = 4}))),
        plan2(child("plan2", nn::Block(2 * c, {.heads = 4}))),
        norm(child("norm", nn::GroupNorm(4, c))),
        out(child("out", nn::Conv2d(c, 4, 3, {.padding = 1}))) {}

  Tensor operator()(const Tensor& x, const Tensor& t, const Tensor& digit) const {
    const int64_t n = x.size(0), h = x.size(2) / 2, w = x.size(3) / 2;
    const Tensor told = time(clock(t) + digits(digit), Activation::silu);
    const Tensor wide = half(in(x), told);
    const Tensor deep = quarter(down(wide), told), tokens = deep.flatten(2).mT();
    const Tensor planned = plan2(plan1(tokens + place(tokens.size(1)) + told.unsqueeze(1)));
    const Tensor y =
        joined(cat({wide, interpolate(planned.mT().reshape(deep.shape()), {h, w})}, 1), told);
    // Four channels at half the size are 2 x 2 pixels each.
    return out(silu(norm(y)))
        .reshape({n, 2, 2, h, w})
        .permute({0, 3, 1, 4, 2})
        .reshape({n, 1, 2 * h, 2 * w});
  }
};

/// Trains on images (n, 1, H, W) from -1 to 1 and their labels (n). Returns the running means of
/// the weights, which make better images.
optim::WeightAverage train(const Denoiser& model, const Schedule& schedule, const Digits& data,
                           const Options& o) {
  optim::Adam optimizer(model.parameters(), {.lr = 2e-3});
  optim::WeightAverage average(model.parameters(), 0.995);
  const int64_t every = std::max<int64_t>(o.steps / 10, 1);
  double total = 0;
  for (int64_t step = 1; step <= o.steps; ++step) {
    const Tensor some = randint(0, data.labels.size(0), {o.batch});
    const Tensor x0 = data.images[some], eps = randn_like(x0);
    const Tensor t = randint(0, o.levels, {o.batch}), kept = schedule.kept[t].view({-1, 1, 1, 1});
    const Tensor xt = sqrt(kept) * x0 + sqrt(1 - kept) * eps;
    const Tensor loss = mse_loss(model(xt, t, data.labels[some]), eps);
    optimizer.set_lr(optim::schedule::cosine(
        step - 1, {.lr = 2e-3, .min_lr = 1e-4, .warmup = o.steps / 60, .steps = o.steps}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step({.max_grad_norm = 1});
    average.update();
    total += loss.item();
    if (step % every != 0) continue;
    std::printf("step %5lld  mean loss of the last %lld steps %.4f\n", static_cast<long long>(step),
                static_cast<long long>(every), total / static_cast<double>(every));
    total = 0;
  }
  return average;
}

/// Makes the digits 0 to 5 from pure noise and draws them at `columns` times.
HeatMap denoise(const Denoiser& model, const Schedule& schedule, const Shape& image,
                const Options& o) {
  constexpr int64_t rows = 6, columns = 9;
  HeatMap map{
      .path = o.out + "/denoising.png",
      .title = "From noise to the digits 0 to 5, one per row: x_t after each of these steps t",
      .numbered = false};
  std::vector<Tensor> frames;  // (rows, H, W) each
  std::vector<int64_t> times;
  const auto keep = [&](int64_t t, const Tensor& x) {
    times.push_back(t), frames.push_back((x.squeeze(1) + 1) / 2);
  };
  const std::vector<double> beta = schedule.beta.to_vector<double>(),
                            kept = schedule.kept.to_vector<double>();
  Tensor x = randn({rows, 1, image[1], image[2]});
  for (int64_t t = o.levels; t > 0; --t) {
    // The last columns are closer together: most of the digit appears late.
    const auto column = static_cast<double>(std::ssize(times)) / (columns - 1);
    if (static_cast<double>(t) <= static_cast<double>(o.levels) * std::pow(1 - column, 1.5) + 0.5)
      keep(t, x);
    const auto i = static_cast<size_t>(t - 1);
    const Tensor eps = model(x, full({rows}, static_cast<double>(t - 1), int64), arange(rows));
    x = (x - beta[i] / std::sqrt(1 - kept[i]) * eps) / std::sqrt(1 - beta[i]);
    if (t > 1) x += std::sqrt(beta[i]) * randn_like(x);
  }
  keep(0, x);
  for (int64_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < frames.size(); ++column)
      map.panels.push_back(
          {row == 0 ? "t = " + std::to_string(times[column]) : "", frames[column][row], {}, {}});
  map.across = std::ssize(frames);
  return map;
}

int run(int argc, char** argv) {
  Options o;
  Flags flags("Trains a diffusion model of digits and draws how it makes digits from noise.");
  flags.group("Options");
  flags.add("--data", o.data, "NAME", "images: mnist:DIR", "drawn digits");
  flags.add("--out", o.out, "DIR", "output folder");
  flags.add("--steps", o.steps, 1, 1e6, "steps of training");
  flags.add("--batch", o.batch, 1, 1e5, "images per step");
  flags.add("--channels", o.channels, 4, 1e4, "channels of the network, a multiple of 4");
  flags.add("--levels", o.levels, 25, 1e5, "T, the number of noise levels");
  flags.add("--seed", o.seed, "random seed");
  if (!flags.parse(argc, argv)) return 0;
  core::check(o.channels % 4 == 0, "--channels: expected a multiple of 4, got ", o.channels);
  make_folder(o.out);
  manual_seed(o.seed);

  Digits data = read_digits(o.data);
  data.images = data.images.unsqueeze(1) * 2 - 1;
  const Schedule schedule(o.levels);
  const Denoiser model(o.levels, data.images[0].numel() / 16, o.channels);
  std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));
  optim::WeightAverage average = train(model, schedule, data, o);
  const optim::WeightAverage::Applied means(average);
  const NoGrad no_grad;
  std::printf("%s\n", draw_or_write(denoise(model, schedule, data.images[0].shape(), o)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("diffusion", argc, argv, run); }
