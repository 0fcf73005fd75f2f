// Logistic regression by hand: no layers, no optimiser. Two blobs of points, a weight and a bias as
// plain tensors, and the training loop of any net: forward, backward, a step down the gradient,
// clearing the gradients.

#include <gradus/gradus.h>

#include <cstdio>

using namespace gradus;

int main() {
  manual_seed(42);

  // Two Gaussian blobs of 100 points: class 0 around (-1, -1), class 1 around (2, 1).
  const int64_t n = 100;
  const Tensor x = cat({randn({n, 2}) + tensor({-1, -1}), randn({n, 2}) + tensor({2, 1})});
  const Tensor y = cat({zeros({n}), ones({n})});

  Tensor w = zeros({2}).requires_grad_();
  Tensor b = scalar(0).requires_grad_();

  const double lr = 0.5;
  for (int step = 0; step <= 200; ++step) {
    // Forward: a score per point, squashed to the probability of class 1.
    const Tensor p = sigmoid(x.matmul(w) + b);
    // The mean of -log(probability of the true class). binary_cross_entropy(p, y) computes it too;
    // binary_cross_entropy_with_logits takes the scores and is exact where p rounds to 0 or 1.
    const Tensor loss = -(y * log(p) + (1 - y) * log(1 - p)).mean();

    // Backward: fills w.grad() and b.grad().
    loss.backward();
    {
      const NoGrad no_grad;  // the update is not recorded
      w -= lr * w.grad();
      b -= lr * b.grad();
    }
    // Gradients accumulate over backward passes: clear them.
    w.set_grad({});
    b.set_grad({});

    if (step % 50 == 0) {
      const double accuracy = ((p > 0.5) == (y > 0.5)).mean().item();
      std::printf("step %3d  loss %.4f  accuracy %.1f %%\n", step, loss.item(), 100 * accuracy);
    }
  }

  // p is 0.5 where w0 x0 + w1 x1 + b = 0: the decision line.
  const double w0 = w[0].item(), w1 = w[1].item(), b0 = b.item();
  std::printf("decision line: %.2f x0 %+.2f x1 %+.2f = 0, that is x1 = %.2f x0 %+.2f\n", w0, w1, b0,
              -w0 / w1, -b0 / w1);
}
