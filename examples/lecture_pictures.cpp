// Draws the figures of a lecture on attention, computed by the library: position codes, rotary
// scores, how far gradients reach, and why scores are divided by sqrt(d).
//
//   build/bin/lecture_pictures --out DIR

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"

using namespace gradus;

namespace {

/// The folder that pictures are written to; with `csv` their data is written too.
struct Output {
  std::string folder;
  bool csv = false;

  std::string path(const std::string& name) const { return folder + '/' + name + ".png"; }
  template <class Drawing>
  void draw(const Drawing& drawing) const {
    if (csv) write_csv(drawing.path.substr(0, drawing.path.size() - 3) + "csv", drawing);
    std::printf("  %s\n\n", draw_or_write(drawing).c_str());
  }
};

// ---- sinusoidal positions ----

void draw_positions(const Output& out) {
  HeatMap map =
      heat_map(out.path("positions"), "sinusoidal positions: 50 positions, 128 dimensions",
               {"", nn::sinusoidal_positions(50, 128)});
  map.x_label = "dimension (even: sine, odd: cosine)";
  map.y_label = "position";
  map.shades = Shades::diverging;
  std::printf(
      "Sinusoidal positions. Each row encodes a position in values from -1 to 1. On the left,\n"
      "neighbours differ; on the right, only distant positions do: a clock with fast and slow "
      "hands.\n");
  out.draw(map);
}

// ---- rotary positions ----

/// The scores of q rotated to `position` and k rotated to position, position + 1, ...: (distances).
Tensor rotary_scores(const Tensor& q, const Tensor& k, int64_t position, int64_t distances) {
  const int64_t D = q.size(0);
  const Tensor angles = nn::sinusoidal_positions(position + distances, D).slice(0, position);
  const Tensor keys = rotary(k.expand({distances, 1, D}).contiguous(), angles, 1);
  const Tensor query = rotary(q.reshape({1, 1, D}), angles.slice(0, 0, 1), 1);
  return matmul(keys.reshape({distances, D}), query.reshape({D})) / std::sqrt(double(D));
}

void draw_rotary(const Output& out) {
  constexpr int64_t D = 64, distances = 200;
  const NoGrad no_grad;
  manual_seed(1);
  const Tensor q = randn({D}), k = randn({D}), same = ones({D});
  Picture picture{out.path("rotary"),
                  "rotary positions: score of a query and a key",
                  "distance between them",
                  "q . k / sqrt(d)",
                  {}};
  for (const auto& [name, a, b] :
       {std::tuple<const char*, Tensor, Tensor>{"q = k = (1, ..., 1)", same, same},
        {"q and k random", q, k}}) {
    Series series{name, {}};
    const std::vector<double> scores = rotary_scores(a, b, 0, distances).to_vector<double>();
    for (size_t d = 0; d < scores.size(); ++d) series.points.push_back({double(d), scores[d]});
    picture.series.push_back(series);
  }
  const double moved =
      (rotary_scores(q, k, 0, distances) - rotary_scores(q, k, 1000, distances)).abs().max().item();
  std::printf(
      "Rotary positions. The score of a query and a key depends on their distance; if they are "
      "equal\n"
      "it falls off in waves. It does not depend on their positions: 1000 positions later no "
      "score\n"
      "differs by more than %.0e.\n",
      moved);
  out.draw(picture);
}

// ---- how far gradients reach ----

constexpr int64_t steps = 100, width = 32, batch = 16;

/// An LSTM whose forget gates are about sigmoid(bias); PyTorch's default is about sigmoid(0).
nn::LSTM lstm_with_forget_bias(double bias) {
  nn::LSTM lstm(width, width);
  const NoGrad no_grad;
  lstm.weights[0].bias_ih.slice(0, width, 2 * width).fill_(bias);  // gates i, f, g, o
  return lstm;
}

/// The last step of (B, T, width): (B, width).
Tensor last(const Tensor& outputs) { return outputs.select(1, steps - 1); }

/// The last output of a forward LSTM whose gates see each previous output as a constant: the
/// gradient of an input flows through the cell alone.
Tensor through_the_cell(const nn::LSTM& lstm, const Tensor& x) {
  const nn::RecurrentWeights& w = lstm.weights[0];
  const Tensor x_gates = linear(x, w.weight_ih, w.bias_ih);
  RecurrentState state{zeros({batch, width}), zeros({batch, width})};
  for (int64_t t = 0; t < steps; ++t)
    state =
        lstm_cell(x_gates.select(1, t), linear(state.h.detach(), w.weight_hh, w.bias_hh), state.c);
  return state.h;
}

/// |d(last output . dy)/d(x_t)| by the distance of t from the end, averaged over `batch` sequences.
Series reach(const std::string& name, const std::function<Tensor(const Tensor&)>& last_output) {
  manual_seed(2);
  const Tensor x = randn({batch, steps, width}).requires_grad_(), dy = randn({batch, width});
  const Tensor gradient = grad({last_output(x)}, {x}, {.grad_outputs = {dy}})[0];
  const std::vector<double> norms = gradient.norm(-1).mean(0).to_vector<double>();
  Series series{name, {}};
  for (size_t d = 0; d < norms.size(); ++d)
    series.points.push_back({double(d), norms[norms.size() - 1 - d]});
  return series;
}

void draw_gradients(const Output& out) {
  manual_seed(3);
  const nn::RNN rnn(width, width);
  const nn::LSTM lstm(width, width), remembering = lstm_with_forget_bias(3);
  const nn::MultiHeadAttention attention(width, {.heads = 4, .causal = true});
  Picture picture{out.path("gradients"),
                  "gradient of the last output with respect to an input, by distance",
                  "steps from the input to the last output",
                  "norm of the gradient",
                  {},
                  true};
  picture.series = {reach("attention", [&](const Tensor& x) { return last(attention(x)); }),
                    reach("LSTM, forget gate 0.95: all paths",
                          [&](const Tensor& x) { return last(remembering(x).output); }),
                    reach("the same: through the cell alone",
                          [&](const Tensor& x) { return through_the_cell(remembering, x); }),
                    reach("LSTM, forget gate 0.5: all paths",
                          [&](const Tensor& x) { return last(lstm(x).output); }),
                    reach("tanh RNN", [&](const Tensor& x) { return last(rnn(x).output); })};
  picture.series[1].colour = picture.series[2].colour = "#d62728";
  picture.series[2].stroke = Stroke::dashed;
  std::printf(
      "How far gradients reach. The gradient of the last output with respect to an input d steps\n"
      "earlier, in untrained layers. In a tanh RNN it decays exponentially: each step multiplies "
      "it\n"
      "by diag(1 - h^2) U. In an LSTM the path through the cell multiplies it by the forget gate,\n"
      "0.95^%d = %.1e, and the paths through the earlier outputs come on top. Attention reaches\n"
      "every position in one step.\n",
      static_cast<int>(steps - 1), std::pow(0.95, steps - 1));
  for (const Series& s : picture.series)
    std::printf("  %-33s at distance 1: %.1e, at %d: %.1e\n", s.name.c_str(), s.points[1].second,
                static_cast<int>(steps - 1), s.points.back().second);
  out.draw(picture);
}

// ---- why scores are divided by sqrt(d) ----

void draw_scaling(const Output& out) {
  constexpr int64_t d = 512, n = 24;
  const NoGrad no_grad;
  manual_seed(4);
  const Tensor q = randn({n, d}), k = randn({n, d}), scores = matmul(q, k.mT());
  const Tensor plain = softmax(scores), scaled = softmax(scores / std::sqrt(double(d)));
  const HeatMap map{.path = out.path("scaling"),
                    .title = "softmax of the scores of 24 queries and keys, d = 512",
                    .x_label = "key",
                    .y_label = "query",
                    .panels = {{"q . k", plain}, {"q . k / sqrt(d)", scaled}},
                    .across = 2};
  const auto largest = [](const Tensor& weights) { return weights.max(-1).values.mean().item(); };
  std::printf(
      "Why scores are divided by sqrt(d). For standard normal q and k, q . k has variance d =\n"
      "512, here %.0f. Softmax of such scores is nearly one-hot (mean largest weight %.2f), with\n"
      "a gradient near 0. Divided by sqrt(d) they have variance 1, and the weights are soft\n"
      "(%.2f).\n",
      scores.var().item(), largest(plain), largest(scaled));
  out.draw(map);
}

int run(int argc, char** argv) {
  Output out{"out/lecture"};
  Flags flags(
      "Draws the figures of a lecture on attention: position codes, rotary scores, how far "
      "gradients\n"
      "reach, scaled scores.");
  flags.group("Output");
  flags.add("--out", out.folder, "DIR", "output folder");
  flags.add("--csv", out.csv, "also write the data as CSV files");
  if (!flags.parse(argc, argv)) return 0;
  make_folder(out.folder);
  draw_positions(out);
  draw_rotary(out);
  draw_gradients(out);
  draw_scaling(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("lecture_pictures", argc, argv, run); }
