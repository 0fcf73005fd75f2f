// A variational autoencoder of digits: Kingma & Welling 2013, "Auto-Encoding Variational Bayes",
// arXiv 1312.6114.
//
// The model assumes that an image x comes from a code z ~ N(0, I) through a decoder p(x | z), here
// one Bernoulli variable per pixel. The encoder's q(z | x) = N(mu, diag(sigma^2)) approximates the
// code of a given image. Together they maximise a lower bound of log p(x), the ELBO (equation 3):
//   log p(x) >= E_q[log p(x | z)] - KL(q(z | x) || N(0, I))
//   KL = 1/2 sum_j (mu_j^2 + sigma_j^2 - log sigma_j^2 - 1)                     (appendix B)
// The expectation is estimated by one z = mu + sigma * eps with eps ~ N(0, I). Written like this, z
// is a differentiable function of mu and sigma: the reparameterisation of section 2.4.
//
//   build/bin/variational_autoencoder [--data mnist:DIR]      default: generated digits

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/drawn_digits.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"

using namespace gradus;

namespace {

struct Options {
  std::string data, out = "out/vae";
  int64_t steps = 4000, batch = 100, latent = 2, hidden = 256;
  uint64_t seed = 1;
};

/// A Gaussian for each image: (n, latent) each.
struct Codes {
  Tensor mean, log_variance;
};

/// The ELBO's two parts, in nats per image.
struct Bound {
  Tensor reconstruction;                                       // -log p(x | z)
  Tensor divergence;                                           // KL(q(z | x) || N(0, I))
  Tensor loss() const { return reconstruction + divergence; }  // -ELBO
};

struct Autoencoder : nn::Module {
  nn::Sequential encoder, decoder;
  Autoencoder(int64_t pixels, const Options& o)
      : encoder(child("encoder", nn::Sequential{nn::Linear(pixels, o.hidden), nn::ReLU(),
                                                nn::Linear(o.hidden, o.hidden), nn::ReLU(),
                                                nn::Linear(o.hidden, 2 * o.latent)})),
        decoder(child("decoder", nn::Sequential{nn::Linear(o.latent, o.hidden), nn::ReLU(),
                                                nn::Linear(o.hidden, o.hidden), nn::ReLU(),
                                                nn::Linear(o.hidden, pixels)})) {}

  /// Images (n, height, width).
  Codes encode(const Tensor& x) const {
    const std::vector<Tensor> halves = encoder(x.flatten(1)).chunk(2, 1);
    return {halves[0], halves[1]};
  }
  Bound operator()(const Tensor& x) const {
    const auto [mean, log_variance] = encode(x);
    const Tensor z = mean + exp(0.5 * log_variance) * randn_like(mean);
    const auto n = static_cast<double>(x.size(0));
    return {
        binary_cross_entropy_with_logits(decoder(z), x.flatten(1), {.reduction = Reduction::sum}) /
            n,
        0.5 * sum(mean * mean + exp(log_variance) - log_variance - 1) / n};
  }
  /// The mean images of codes (n, latent): (n, height, width).
  Tensor decode(const Tensor& z, int64_t height) const {
    return sigmoid(decoder(z)).reshape({z.size(0), height, -1});
  }
};

void train(const Autoencoder& model, const Tensor& images, const Tensor& held_out,
           const Options& o) {
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (int64_t step = 0; step <= o.steps; ++step) {
    if (step % std::max<int64_t>(o.steps / 10, 1) == 0) {
      const NoGrad no_grad;
      const Bound bound = model(held_out);
      std::printf("step %5lld  ELBO %8.2f = -%.2f reconstruction - %.2f KL, held-out\n",
                  static_cast<long long>(step), -bound.loss().item(), bound.reconstruction.item(),
                  bound.divergence.item());
    }
    if (step == o.steps) return;
    optimizer.set_lr(optim::schedule::cosine(step, {.lr = 1e-3, .min_lr = 1e-4, .steps = o.steps}));
    optimizer.zero_grad();
    model(images[randint(0, images.size(0), {o.batch})]).loss().backward();
    optimizer.step();
  }
}

HeatMap picture(const Options& o, const char* name, const char* title, const Tensor& images,
                int64_t columns) {
  HeatMap map = heat_map(o.out + '/' + name, title, {"", tiled(images, columns), {}, {}});
  map.numbered = false;
  return map;
}

/// Held-out digits, each above what the decoder makes of its code's mean.
HeatMap reconstructions(const Autoencoder& model, const Tensor& images, const Options& o) {
  constexpr int64_t columns = 10, rows = 3;
  const Tensor x = images.slice(0, 0, rows * columns);
  const Tensor y = model.decode(model.encode(x).mean, x.size(1));
  const auto in_rows = [&](const Tensor& t) {
    return t.reshape({-1, columns, t.size(1), t.size(2)});
  };
  return picture(o, "reconstructions.png", "Held-out digits, and below each its reconstruction",
                 stack({in_rows(x), in_rows(y)}, 1).flatten(0, 2), columns);
}

/// What the decoder makes of codes on a grid.
HeatMap plane(const Autoencoder& model, int64_t height, const Options& o) {
  constexpr int64_t side = 14;
  const Tensor line = linspace(-2.5, 2.5, side);
  const Tensor z1 = line.expand({side, side}), z2 = -line.unsqueeze(1).expand({side, side});
  HeatMap map = picture(o, "plane.png", "The mean image of each code z in the plane",
                        model.decode(stack({z1, z2}, 2).flatten(0, 1), height), side);
  map.x_label = "z1, from -2.5 to 2.5", map.y_label = "z2, from -2.5 to 2.5";
  return map;
}

/// The first two coordinates of the codes of held-out digits.
Picture codes(const Autoencoder& model, const Digits& digits, const Options& o) {
  const std::vector<double> at =
      model.encode(digits.images).mean.slice(1, 0, 2).to_vector<double>();
  const std::vector<int64_t> labels = digits.labels.to_vector<int64_t>();
  Picture picture{
      o.out + "/codes.png", "Where the encoder puts held-out digits", "z1", "z2", {}, false, true};
  for (int64_t digit = 0; digit < 10; ++digit) {
    Series series{std::to_string(digit), {}};
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == digit) series.points.emplace_back(at[2 * i], at[2 * i + 1]);
    if (!series.points.empty()) picture.series.push_back(std::move(series));
  }
  return picture;
}

int run(int argc, char** argv) {
  Options o;
  Flags flags("Trains a variational autoencoder of digits and draws what its codes mean.");
  flags.group("Options");
  flags.add("--data", o.data, "NAME", "images: mnist:DIR", "drawn digits");
  flags.add("--out", o.out, "DIR", "output folder");
  flags.add("--steps", o.steps, 0, 1e6, "steps of training");
  flags.add("--batch", o.batch, 1, 1e5, "images per step");
  flags.add("--latent", o.latent, 2, 1e4, "dimension of the codes; 2 also draws their plane");
  flags.add("--hidden", o.hidden, 1, 1e5, "units of the hidden layers");
  flags.add("--seed", o.seed, "random seed");
  if (!flags.parse(argc, argv)) return 0;
  make_folder(o.out);
  manual_seed(o.seed);

  const Digits digits = read_digits(o.data);
  // The digits from `first` on are held out.
  const int64_t n = digits.labels.size(0), first = n - std::min<int64_t>(1000, n / 5);
  core::check(n >= 150, "--data: expected at least 150 images, to hold out and show 30, got ", n);
  const Digits held_out{digits.images.slice(0, first), digits.labels.slice(0, first)};
  const Autoencoder model(digits.images[0].numel(), o);
  std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));
  train(model, digits.images.slice(0, 0, first), held_out.images, o);

  const NoGrad no_grad;
  std::printf("%s\n", draw_or_write(reconstructions(model, held_out.images, o)).c_str());
  std::printf("%s\n", draw_or_write(codes(model, held_out, o)).c_str());
  if (o.latent == 2)
    std::printf("%s\n", draw_or_write(plane(model, digits.images.size(1), o)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("variational_autoencoder", argc, argv, run); }
