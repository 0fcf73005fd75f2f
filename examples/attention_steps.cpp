// Attention step by step: one query attends to three keys, with values small enough to check by
// hand.

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>
#include <iostream>

using namespace gradus;

int main() {
  std::cout.precision(4);

  // One query q and three keys, head size 4. The keys are chosen so that q.k is 0, 4 and 2.
  const Tensor q = tensor({{1, 1, 1, 1}}).requires_grad_();
  const Tensor k = tensor({{1, -1, 1, -1}, {2, 1, 0, 1}, {0, 1, 1, 0}}).requires_grad_();
  const Tensor v = tensor({{10, 0}, {0, 10}, {5, 5}}).requires_grad_();

  // 1. How well does each key match? One dot product per key.
  const Tensor dots = matmul(q, k.mT());
  std::cout << "q k^T                = " << dots << '\n';

  // 2. Divide by sqrt(d), so that the scores' variance does not grow with d. They become 0, 2, 1.
  const Tensor scores = dots / std::sqrt(4.0);
  std::cout << "scores / sqrt(d)     = " << scores << '\n';

  // 3. Softmax gives weights: positive, summing to 1.  e^0 : e^2 : e^1 = 0.09 : 0.67 : 0.24
  const Tensor weights = softmax(scores);
  std::cout << "weights = softmax    = " << weights << '\n';

  // 4. The output is the average of the values with these weights.
  const Tensor y = matmul(weights, v);
  std::cout << "output = weights v   = " << y << '\n';

  // The library's fused op does all four steps, in tiles, without storing the weights.
  const auto heads = [](const Tensor& x) { return x.unsqueeze(0); };  // (T, D) -> (H, T, D), H = 1
  const Tensor fused = scaled_dot_product_attention(heads(q), heads(k), heads(v));
  std::cout << "the fused op         = " << fused.squeeze(0) << "\n\n";

  // Backward, by the chain rule, for the loss L = y_0 (so dL/dy = (1, 0)):
  //   dL/dweights = dL/dy v^T
  //   dL/dscores  = w * (dL/dw - sum_j w_j dL/dw_j)    softmax's rule
  //   dL/dq       = dL/dscores k / sqrt(d)
  const Tensor dy = tensor({{1, 0}});
  const Tensor dweights = matmul(dy, v.mT()).detach();
  const Tensor w = weights.detach();
  const Tensor dscores = w * (dweights - sum(w * dweights, -1, keepdim));
  const Tensor dq = matmul(dscores, k.detach()) / std::sqrt(4.0);
  y.backward(dy);
  std::cout << "dL/dscores by hand   = " << dscores << '\n';
  std::cout << "dL/dq      by hand   = " << dq << '\n';
  std::cout << "dL/dq      autograd  = " << q.grad() << '\n';

  // A causal mask: position i attends only to j <= i. Masked scores become -inf, their weights 0.
  const Tensor square = matmul(k, k.mT()).detach() / std::sqrt(4.0);
  const Tensor future = eq(tril(ones({3, 3})), 0);
  std::cout << "\ncausal weights of the three keys among themselves:\n"
            << softmax(masked_fill(square, future, -INFINITY)) << '\n';
}
