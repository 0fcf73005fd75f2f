// REINFORCE learns to balance a pole on a cart: Williams 1992, "Simple statistical
// gradient-following algorithms for connectionist reinforcement learning", Machine Learning 8.
//
// A policy pi(a | s) draws an action in each state. The gradient of its expected return is
//   E[sum_t grad log pi(a_t | s_t) (G_t - b(s_t))],  G_t = r_t + gamma r_{t+1} + gamma^2 r_{t+2}...
// for any baseline b that does not depend on the action. Here b is a second network, fitted to the
// returns: an action is reinforced as far as its outcome was better than expected.
//
//   build/bin/reinforce --out DIR

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"

using namespace gradus;

namespace {

// ---- the cart and its pole: Barto, Sutton & Anderson 1983, as in gym's CartPole-v1 ----

constexpr int64_t longest = 500;  // steps of an episode
constexpr double solved = 475;    // mean return of 100 episodes
constexpr size_t window = 100;

/// Position of the cart (m) and angle of the pole from the vertical (rad), each with its rate per
/// s.
struct State {
  double position, velocity, angle, spin;
};

bool has_failed(const State& s) {
  return std::abs(s.position) > 2.4 || std::abs(s.angle) > 12 * std::numbers::pi / 180;
}

/// The state 0.02 s after a push of 10 N to the left (action 0) or to the right (1). Euler's
/// method: positions change by the old rates.
State push(const State& s, int64_t action) {
  constexpr double gravity = 9.8, pole = 0.1, total = 1.1, half = 0.5, tau = 0.02;  // kg, m, s
  const double force = action == 1 ? 10 : -10, sine = std::sin(s.angle), cosine = std::cos(s.angle);
  const double thrust = (force + pole * half * s.spin * s.spin * sine) / total;
  const double spin_rate =
      (gravity * sine - cosine * thrust) / (half * (4.0 / 3 - pole * cosine * cosine / total));
  const double acceleration = thrust - pole * half * spin_rate * cosine / total;
  return {s.position + tau * s.velocity, s.velocity + tau * acceleration, s.angle + tau * s.spin,
          s.spin + tau * spin_rate};
}

// ---- episodes ----

/// A hidden layer of tanh: states (n, 4) -> (n, outputs).
nn::Sequential network(int64_t outputs) {
  return nn::Sequential{nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, outputs)};
}

struct Episode {
  std::vector<std::vector<float>> states;
  std::vector<int64_t> actions;
  int64_t length() const { return std::ssize(actions); }  // its return: each step earns 1
};

/// Plays episodes side by side: one call of the policy draws the next action of each.
std::vector<Episode> play(const nn::Sequential& policy, int64_t count) {
  const NoGrad no_grad;
  std::vector<Episode> episodes(static_cast<size_t>(count));
  std::vector<State> now;
  const std::vector<double> start = ((rand({count, 4}, float64) - 0.5) * 0.1).to_vector<double>();
  for (size_t i = 0; i < start.size(); i += 4)
    now.push_back({start[i], start[i + 1], start[i + 2], start[i + 3]});
  std::vector<size_t> running(episodes.size());
  std::iota(running.begin(), running.end(), 0);
  while (!running.empty()) {
    std::vector<std::vector<float>> states;
    for (const size_t i : running)
      states.push_back({static_cast<float>(now[i].position), static_cast<float>(now[i].velocity),
                        static_cast<float>(now[i].angle), static_cast<float>(now[i].spin)});
    const std::vector<int64_t> actions =
        multinomial(softmax(policy(from_data(states))), 1).to_vector<int64_t>();
    std::vector<size_t> still_running;
    for (size_t k = 0; k < running.size(); ++k) {
      const size_t i = running[k];
      episodes[i].states.push_back(states[k]);
      episodes[i].actions.push_back(actions[k]);
      now[i] = push(now[i], actions[k]);
      if (!has_failed(now[i]) && episodes[i].length() < longest) still_running.push_back(i);
    }
    running = still_running;
  }
  return episodes;
}

// ---- learning ----

struct Options {
  std::string out = "out/reinforce";
  int64_t steps = 200, episodes = 10;
  double lr = 0.01, gamma = 0.99;
  bool no_baseline = false;
  uint64_t seed = 1;
};

/// The loss whose gradient is the equation's, negated, plus the baseline's squared error.
Tensor loss_of(const nn::Sequential& policy, const nn::Sequential& baseline,
               const std::vector<Episode>& episodes, const Options& o) {
  std::vector<std::vector<float>> states;
  std::vector<int64_t> actions;
  std::vector<float> returns;  // G_t (1 - gamma): from 0 to 1
  for (const Episode& e : episodes) {
    states.insert(states.end(), e.states.begin(), e.states.end());
    actions.insert(actions.end(), e.actions.begin(), e.actions.end());
    for (int64_t t = 0; t < e.length(); ++t)  // a geometric sum, as each reward is 1
      returns.push_back(static_cast<float>(1 - std::pow(o.gamma, e.length() - t)));
  }
  const Tensor s = from_data(states), a = from_data(actions), g = from_data(returns);
  const Tensor log_pi = gather(log_softmax(policy(s)), 1, a.unsqueeze(1)).squeeze(1);
  const Tensor b = baseline(s).squeeze(1);
  const Tensor advantage = o.no_baseline ? g : g - b.detach();
  return mse_loss(b, g) - mean(log_pi * advantage);
}

/// The mean of the last 100 numbers, or of all if there are fewer.
double recent_mean(const std::vector<double>& x) {
  const size_t n = std::min(x.size(), window);
  return std::accumulate(x.end() - static_cast<std::ptrdiff_t>(n), x.end(), 0.0) /
         static_cast<double>(n);
}

void draw(const std::vector<double>& returns, const Options& o) {
  Picture picture{.path = o.out + "/returns.png",
                  .title = "REINFORCE on CartPole: for how many steps the pole stays up",
                  .x_label = "episode",
                  .y_label = "return",
                  .series = {{"one episode", {}}, {"mean of 100", {}}, {"solved: 475", {}}},
                  .clouds = true};
  for (size_t i = 0; i < returns.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    const auto end = returns.begin() + static_cast<std::ptrdiff_t>(i + 1);
    picture.series[0].points.emplace_back(x, returns[i]);
    picture.series[1].points.emplace_back(x, recent_mean({returns.begin(), end}));
    picture.series[2].points.emplace_back(x, solved);
  }
  std::printf("%s\n", draw_or_write(picture).c_str());
}

int run(int argc, char** argv) {
  Options o;
  Flags flags("Learns to balance a pole on a cart by REINFORCE, and draws the returns.");
  flags.group("Options");
  flags.add("--out", o.out, "DIR", "output folder");
  flags.add("--steps", o.steps, 1, 1e6, "maximum updates of the policy");
  flags.add("--episodes", o.episodes, 1, 1e5, "episodes per update");
  flags.add("--lr", o.lr, 0, 1e3, "learning rate");
  flags.add("--gamma", o.gamma, 0, 0.999999, "discount factor of later rewards");
  flags.add("--no-baseline", o.no_baseline, "do not subtract a baseline from the returns");
  flags.add("--seed", o.seed, "random seed");
  if (!flags.parse(argc, argv)) return 0;
  make_folder(o.out);
  manual_seed(o.seed);

  const State next = push({0.1, -0.2, 0.05, 0.3}, 1);
  std::printf(
      "position 0.1, velocity -0.2, angle 0.05, spin 0.3, pushed to the right: "
      "%.4f, %.4f, %.4f, %.4f\n",
      next.position, next.velocity, next.angle, next.spin);

  const nn::Sequential policy = network(2), baseline = network(1);
  std::vector<Tensor> parameters = policy.parameters();
  for (const Tensor& p : baseline.parameters()) parameters.push_back(p);
  optim::Adam optimizer(parameters, {.lr = o.lr});
  std::vector<double> returns;
  for (int64_t step = 1; step <= o.steps; ++step) {
    const std::vector<Episode> episodes = play(policy, o.episodes);
    for (const Episode& e : episodes) returns.push_back(static_cast<double>(e.length()));
    const bool done = returns.size() >= window && recent_mean(returns) >= solved;
    if (done || step % 10 == 0)
      std::printf("step %4lld  %5zu episodes  mean return of the last 100: %.1f%s\n",
                  static_cast<long long>(step), returns.size(), recent_mean(returns),
                  done ? ", solved" : "");
    if (done) break;
    optimizer.zero_grad();
    loss_of(policy, baseline, episodes, o).backward();
    optimizer.step();
  }
  draw(returns, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("reinforce", argc, argv, run); }
