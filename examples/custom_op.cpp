// A custom op: forward in plain C++, backward as a rule, checked against finite differences.
//
// The op is the softsign y = x / (1 + |x|), with dy/dx = 1 / (1 + |x|)^2.

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>

using namespace gradus;

/// x / (1 + |x|) elementwise, float64 only.
Tensor softsign(const Tensor& x) {
  core::check(x.dtype() == float64, "softsign: expected float64, got ", x.dtype());

  // Forward: read the input's elements, write the output's.
  const Tensor in = x.detach().contiguous();
  const Tensor y = core::empty(x.shape(), float64);
  for (int64_t i = 0; i < in.numel(); ++i)
    y.data<double>()[i] = in.data<double>()[i] / (1 + std::abs(in.data<double>()[i]));

  // Backward: given dL/dy, compute dL/dx. Written with ops, it can be differentiated again.
  core::record("softsign", {y}, {x}, core::saves_input(0), [](core::Backward& b) {
    const Tensor slope = 1.0 / pow(abs(b.input(0)) + 1.0, 2);
    b.give(0, b.grad() * slope);
  });
  return y;
}

/// softsign with a wrong backward rule: the square is missing.
Tensor wrong_softsign(const Tensor& x) {
  const Tensor y = softsign(x.detach());
  core::record("wrong_softsign", {y}, {x}, core::saves_input(0),
               [](core::Backward& b) { b.give(0, b.grad() / (abs(b.input(0)) + 1.0)); });
  return y;
}

int main() {
  manual_seed(1);
  const Tensor x = randn({3, 4}, float64).requires_grad_();
  const auto right = [](const std::vector<Tensor>& in) { return std::vector{softsign(in[0])}; };
  const auto wrong = [](const std::vector<Tensor>& in) {
    return std::vector{wrong_softsign(in[0])};
  };

  const GradcheckResult first = gradcheck(right, {x});
  const GradcheckResult second = gradgradcheck(right, {x});
  const GradcheckResult refused = gradcheck(wrong, {x});
  std::printf("gradcheck of softsign:       %s\n", first ? "ok" : first.message.c_str());
  std::printf("gradgradcheck of softsign:   %s\n", second ? "ok" : second.message.c_str());
  std::printf("gradcheck of a wrong rule:   %s\n", refused ? "ok" : refused.message.c_str());

  // It trains like any other op: find the x whose softsign is 0.8 (x = 4).
  Tensor z = scalar(0.5, float64).requires_grad_();
  for (int step = 0; step < 2000; ++step) {
    z.set_grad({});
    pow(softsign(z) - 0.8, 2).backward();
    const NoGrad no_grad;
    z.add_(z.grad(), -10);
  }
  std::printf("softsign(x) = 0.8 at x = %.4f\n", z.item());
  return first && second && !refused ? 0 : 1;
}
