// A user's program against the installed library: what must work across the boundary of a shared
// library. tests/installed/run builds and runs it.

#include <gradus/gradus.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

using namespace gradus;

namespace {

void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "installed library: expected %s\n", what);
  std::exit(1);
}

/// A user's optimiser: the step is lr times the gradient's sign.
class SignSGD : public optim::ElementwiseOptimizer {
 public:
  SignSGD(optim::ParameterGroups groups, double lr)
      : ElementwiseOptimizer("SignSGD", std::move(groups), lr, 0, {}, [](const auto& c) {
          for (int64_t i = 0; i < c.n; ++i) c.param[i] -= (c.grad[i] > 0 ? 1 : -1) * c.lr;
        }) {}
};

struct Net : nn::Module {
  nn::Linear out;
  Net() : out(child("out", nn::Linear(2, 1))) {}
  Tensor operator()(const Tensor& x) const { return out(tanh(x)); }
};

void errors() {
  bool caught = false;
  try {
    matmul(ones({2, 3}), ones({2, 3}));
  } catch (const Error& e) {
    caught = true;
  }
  expect(caught, "to catch the library's Error");
  caught = false;
  try {
    parallel_for(100, 1, [](int64_t begin, int64_t) {
      if (begin == 50) throw std::out_of_range("mine");
    });
  } catch (const std::out_of_range&) {
    caught = true;
  }
  expect(caught, "a loop's body to throw through the library");
}

void by_hand() {
  Tensor w = ones({2}).requires_grad_();
  (w * w).sum().backward();
  const NoGrad no_grad;
  w -= 0.25 * w.grad();
  w *= 2;
  expect(w[0].item() == 1 && w.requires_grad(), "w -= step to change w");
}

void polymorphism() {
  const Net net;
  const std::unique_ptr<optim::Optimizer> adam = std::make_unique<optim::AdamW>(net.parameters());
  expect(dynamic_cast<optim::AdamW*>(adam.get()) != nullptr, "an AdamW to be one");
  expect(dynamic_cast<optim::SGD*>(adam.get()) == nullptr, "an AdamW to be no SGD");

  SignSGD optimizer(net.parameters(), 0.5);
  const std::vector<float> before = net.out.bias.to_vector<float>();
  net(ones({4, 2})).backward(ones({4, 1}));
  optimizer.step();
  expect(net.out.bias.to_vector<float>()[0] == before[0] - 0.5f, "an optimiser of one's own");
}

/// Checks that program and library see the same thread-local scopes.
void scopes() {
  const Tensor x = ones({2}).requires_grad_();
  {
    const NoGrad no_grad;
    expect(!(x * x).requires_grad(), "NoGrad to reach the library");
  }
  Profile profile;
  {
    const ProfileScope scope("mine");
    ProfileScope::count(1, 2);
  }
  exp(x);
  expect(profile.rows().size() == 2, "one profile of the library's ops and the user's");
}

void numbers() {
  expect(from_data(std::vector<int>{1, 2}, {2}).to_vector<bool>() == std::vector<bool>{true, true},
         "from_data and to_vector");
  const double total = parallel_sum<double>(
      1000, 10, [](int64_t begin, int64_t end) { return static_cast<double>(end - begin); });
  expect(total == 1000, "parallel_sum");
}

}  // namespace

int main() {
  errors();
  by_hand();
  polymorphism();
  scopes();
  numbers();
}
