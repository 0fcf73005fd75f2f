// Why Muon orthogonalises: the singular values of one matrix's gradient, of Adam's step and of
// Muon's, in a small GPT that has trained for a while.
//
//   build/bin/muon_steps --out DIR

#include <gradus/gradus.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"
#include "examples/support/source_text.h"

using namespace gradus;

namespace {

/// The singular values of a matrix, the largest first: the roots of the eigenvalues of X^T X, by
/// Jacobi's method, which rotates pairs of axes until the matrix is diagonal.
std::vector<double> singular_values(const Tensor& matrix) {
  const Tensor x = matrix.to(float64), gram = matmul(x.transpose(0, 1), x);
  const auto n = static_cast<size_t>(gram.size(0));
  std::vector<double> a = gram.to_vector<double>();
  for (int sweep = 0; sweep < 30; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p * n + q]) < 1e-300) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double kp = a[k * n + p], kq = a[k * n + q];
          a[k * n + p] = c * kp - s * kq, a[k * n + q] = s * kp + c * kq;
        }
        for (size_t k = 0; k < n; ++k) {
          const double pk = a[p * n + k], qk = a[q * n + k];
          a[p * n + k] = c * pk - s * qk, a[q * n + k] = s * pk + c * qk;
        }
      }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(std::sqrt(std::max(a[i * n + i], 0.0)));
  std::sort(values.rbegin(), values.rend());
  return values;
}

/// The running means of a matrix's gradient and of its square after some steps of training.
struct Means {
  Tensor first, second;
};

Means train(int64_t steps) {
  constexpr int64_t context = 32;
  const std::string text = source_text();
  const models::CharTokenizer tokenizer(text);
  const models::TextData data(tokenizer.encode(text), context);
  manual_seed(1);
  const models::GPT model(
      {.vocab = tokenizer.vocab_size(), .context = context, .layers = 2, .heads = 2, .dim = 64});
  optim::AdamW optimizer(optim::decay_groups(model.parameters()), {.lr = 3e-3});
  const Tensor& weight = model.blocks[1].mlp.fc.weight;
  Means means{zeros(weight.shape()), zeros(weight.shape())};
  for (int64_t step = 0; step < steps; ++step) {
    const auto [x, y] = data.random_batch(models::Split::train, 8, 1, step);
    optimizer.zero_grad();
    model.loss(x, y).backward();
    const NoGrad no_grad;
    means.first = 0.9 * means.first + 0.1 * weight.grad();
    means.second = 0.99 * means.second + 0.01 * weight.grad() * weight.grad();
    optimizer.step();
  }
  return means;
}

Series series(const std::string& name, const Tensor& matrix) {
  const std::vector<double> values = singular_values(matrix);
  Series out{name, {}};
  for (size_t i = 0; i < values.size(); ++i)
    out.points.push_back({static_cast<double>(i + 1), values[i] / values[0]});
  // How many directions hold nine tenths of the squared length.
  double total = 0, held = 0;
  size_t count = 0;
  for (const double v : values) total += v * v;
  while (held < 0.9 * total) held += values[count] * values[count], ++count;
  std::printf("  %-16s smallest / largest %.1e, %2zu of %zu directions hold 90%% of the step\n",
              name.c_str(), values.back() / values[0], count, values.size());
  return out;
}

int run(int argc, char** argv) {
  std::string folder = "out/muon";
  int64_t steps = 200;
  Flags flags("Draws the singular values of a gradient, and of Adam's and Muon's steps.");
  flags.group("Options");
  flags.add("--out", folder, "DIR", "output folder");
  flags.add("--steps", steps, 1, 1e6, "steps of training before the picture");
  if (!flags.parse(argc, argv)) return 0;
  make_folder(folder);

  const auto [first, second] = train(steps);
  const NoGrad no_grad;
  std::printf("A (256, 64) matrix of a GPT after %lld steps:\n", static_cast<long long>(steps));
  Picture picture{folder + "/muon.png",
                  "singular values of one matrix's step",
                  "direction, the largest first",
                  "relative to the largest",
                  {},
                  true};
  picture.series = {series("mean gradient", first),
                    series("Adam's step", first / (sqrt(second) + 1e-8)),
                    series("Muon's step", optim::newton_schulz(first))};
  std::printf("%s\n", draw_or_write(picture).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("muon_steps", argc, argv, run); }
