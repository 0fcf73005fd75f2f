// Trains a small network to separate two interleaved half circles, and prints its decision regions.

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>
#include <numbers>

using namespace gradus;

/// Two inputs, two hidden layers of 32 units, one logit.
struct Classifier : nn::Module {
  nn::Linear first, second, out;
  Classifier()
      : first(child("first", nn::Linear(2, 32))),
        second(child("second", nn::Linear(32, 32))),
        out(child("out", nn::Linear(32, 1))) {}

  Tensor operator()(const Tensor& x) const { return out(relu(second(relu(first(x))))).squeeze(-1); }
};

struct Points {
  Tensor x, y;  // (n, 2); (n), 0 or 1
};

/// n noisy points: the upper moon is class 0, the lower, shifted one class 1.
Points two_moons(int64_t n) {
  const Tensor y = gt(rand({n}), 0.5).to(float32);
  const Tensor angle = rand({n}) * std::numbers::pi;
  const Tensor side = 1.0 - y * 2.0;  // +1 for the upper moon, -1 for the lower
  const Tensor x = stack({side * cos(angle) + y, side * sin(angle) + y * 0.5}, 1);
  return {x + randn({n, 2}) * 0.1, y};
}

double accuracy(const Classifier& model, const Points& points) {
  const NoGrad no_grad;
  const Tensor predicted = gt(model(points.x), 0).to(float32);
  return mean(eq(predicted, points.y).to(float32)).item();
}

/// Prints the plane as characters, by the predicted probability at each point.
void draw(const Classifier& model) {
  const NoGrad no_grad;
  for (double v = 1.3; v > -0.9; v -= 0.15) {
    for (double u = -1.4; u < 2.4; u += 0.06) {
      const double p = sigmoid(model(tensor({{u, v}}))).item();
      std::putchar(p < 0.1 ? '.' : p < 0.5 ? ':' : p < 0.9 ? 'o' : '#');
    }
    std::putchar('\n');
  }
}

int main() {
  manual_seed(1);
  const Points train = two_moons(500), test = two_moons(500);
  Classifier model;
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));

  for (int step = 0; step <= 300; ++step) {
    const Tensor loss = binary_cross_entropy_with_logits(model(train.x), train.y);
    if (step % 50 == 0)
      std::printf("step %3d  loss %.4f  test accuracy %.3f\n", step, loss.item(),
                  accuracy(model, test));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  draw(model);
  std::printf("test accuracy %.3f\n", accuracy(model, test));
  return accuracy(model, test) >= 0.98 ? 0 : 1;
}
