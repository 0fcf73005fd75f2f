// ShardedOptimizer: expected values come from the optimiser alone.

#include "gradus/optim/parallel/sharded.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "gradus/core/core.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/support/ranks.h"

namespace sharded_test {

using namespace gradus;
using optim::Communicator;

namespace {

std::vector<Tensor> parameters(uint64_t seed) {
  manual_seed(seed);
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{7, 13}, Shape{13}, Shape{300, 500}, Shape{5, 3}, Shape{}})
    params.push_back(randn(shape).requires_grad_());
  return params;
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)> make;
};

const std::vector<Kind> kinds{
    {"AdamW",
     [](const auto& params) {
       return std::make_unique<optim::AdamW>(optim::decay_groups(params),
                                             optim::AdamWOptions{.lr = 0.1, .weight_decay = 0.1});
     }},
    {"Adagrad",
     [](const auto& params) {
       return std::make_unique<optim::Adagrad>(
           params, optim::AdagradOptions{.lr = 0.1, .initial_sum = 0.5});
     }},
    {"Muon",
     [](const auto& params) {
       return optim::muon_and_adamw(params, {{params[0], {7}}, {params[3], {5}}}, {});
     }},
};

/// Takes steps `first` to `last`, each with gradients of its own. Parameter 1 has none in step 2.
void train(optim::Optimizer& optimizer, const std::vector<Tensor>& params, int first, int last) {
  for (int step = first; step < last; ++step) {
    manual_seed(1000 + static_cast<uint64_t>(step));
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor g = randn(params[i].shape());
      params[i].set_grad(step == 2 && i == 1 ? Tensor() : g);
    }
    optimizer.set_lr(0.1 / (1 + step));
    optimizer.step({.max_grad_norm = 10});
  }
}

bool same_state(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].first != b[i].first || !same_bits(a[i].second, b[i].second)) return false;
  return true;
}

}  // namespace

TEST_CASE("ShardedOptimizer: the bits of the optimiser alone, also resumed on other ranks",
          "[data_parallel]") {
  const int ranks = GENERATE(1, 2, 3, 8);
  for (const Kind& kind : kinds) {
    CAPTURE(ranks, kind.name);
    const std::vector<Tensor> params = parameters(1);
    const auto alone = kind.make(params);
    train(*alone, params, 0, 3);
    NamedTensors halfway;
    for (const auto& [name, t] : alone->state_dict()) halfway.emplace_back(name, t.clone());
    std::vector<Tensor> weights;
    for (const Tensor& p : params) weights.push_back(p.detach().clone());
    train(*alone, params, 3, 6);
    const NamedTensors expected = alone->state_dict();

    std::vector<int> wrong(static_cast<size_t>(ranks));
    const std::vector<std::string> errors = on_ranks(ranks, [&](Communicator& c) {
      int& bad = wrong[static_cast<size_t>(c.rank())];
      const auto check_all = [&](optim::ShardedOptimizer& optimizer, const auto& of_rank) {
        for (size_t i = 0; i < params.size(); ++i) bad += !same_bits(of_rank[i], params[i]);
        optimizer.gather_state();
        if (c.rank() == 0) bad += !same_state(optimizer.state_dict(), expected);
      };
      const std::vector<Tensor> own = parameters(1);
      optim::ShardedOptimizer whole(kind.make(own), c);
      train(whole, own, 0, 6);
      check_all(whole, own);

      const std::vector<Tensor> resumed = parameters(2);
      optim::ShardedOptimizer second(kind.make(resumed), c);
      second.load_state_dict(halfway);
      const NoGrad no_grad;
      for (size_t i = 0; i < weights.size(); ++i) resumed[i].copy_(weights[i]);
      train(second, resumed, 3, 6);
      check_all(second, resumed);
      // A loaded state replaces the one gathered before: again only this rank's share is defined.
      second.load_state_dict(halfway);
      const NamedTensors share = second.state_dict();
      bad += ranks > 1 && std::all_of(share.begin(), share.end(),
                                      [](const auto& one) { return one.second.defined(); });
      second.gather_state();
      if (c.rank() == 0) bad += !same_state(second.state_dict(), halfway);
    });
    for (size_t r = 0; r < wrong.size(); ++r) {
      CHECK(errors[r] == "");
      CHECK(wrong[r] == 0);
    }
  }
}

TEST_CASE("ShardedOptimizer: shares of several megabytes, and states in double precision",
          "[data_parallel]") {
  // Weights are exchanged up to 4 MB at a time. Of two ranks, the first updates the 4.4 MB of
  // float32, the second the 4.8 MB of float64 and the seven numbers.
  const auto make = [] {
    manual_seed(1);
    return std::vector<Tensor>{randn({600'000}, float64).requires_grad_(),
                               randn({1'100'000}).requires_grad_(), randn({7}).requires_grad_()};
  };
  const auto optimizer_of = [](const std::vector<Tensor>& params) {
    return std::make_unique<optim::SGD>(params, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  };
  const auto take_steps = [](optim::Optimizer& optimizer, const std::vector<Tensor>& params) {
    for (const double factor : {1.0, 2.0}) {
      for (const Tensor& p : params) p.set_grad(p.detach() * factor);
      optimizer.step();
    }
  };
  const std::vector<Tensor> params = make();
  const auto alone = optimizer_of(params);
  take_steps(*alone, params);
  const NamedTensors expected = alone->state_dict();
  std::vector<int> wrong(2);
  const std::vector<std::string> errors = on_ranks(2, [&](Communicator& c) {
    const std::vector<Tensor> own = make();
    optim::ShardedOptimizer optimizer(optimizer_of(own), c);
    take_steps(optimizer, own);
    int& bad = wrong[static_cast<size_t>(c.rank())];
    for (size_t i = 0; i < params.size(); ++i) bad += !same_bits(own[i], params[i]);
    optimizer.gather_state();
    if (c.rank() == 0) bad += !same_state(optimizer.state_dict(), expected);
  });
  CHECK(errors == std::vector<std::string>{"", ""});
  CHECK(wrong == std::vector<int>{0, 0});
}

TEST_CASE("ShardedOptimizer: a frozen parameter's gradient does not count in the norm",
          "[data_parallel]") {
  std::vector<double> norms(2);
  on_ranks(2, [&](Communicator& c) {
    const Tensor p = ones({2}).requires_grad_(), frozen = ones({2});
    optim::ShardedOptimizer optimizer(kinds[0].make({p, frozen}), c);
    p.set_grad(tensor({3, 4})), frozen.set_grad(tensor({100, 100}));
    norms[static_cast<size_t>(c.rank())] = optimizer.step({.max_grad_norm = 1});
  });
  CHECK(norms == std::vector<double>{5, 5});
}

TEST_CASE("ShardedOptimizer: each rank holds its share of the state", "[data_parallel]") {
  std::vector<int64_t> held(3), listed(3);
  on_ranks(3, [&](Communicator& c) {
    std::vector<Tensor> params;
    for (int i = 0; i < 6; ++i) params.push_back(ones({100, 10 + i}).requires_grad_());
    optim::ShardedOptimizer optimizer(kinds[0].make(params), c);
    for (const auto& [name, tensor] : optimizer.state_dict()) {
      if (name != "step" && tensor.defined()) held[static_cast<size_t>(c.rank())] += tensor.numel();
      ++listed[static_cast<size_t>(c.rank())];
    }
  });
  for (const int64_t elements : held) CHECK(elements == 2 * 100 * 25);  // of two moments
  for (const int64_t names : listed) CHECK(names == 1 + 2 * 6);
}

TEST_CASE("ShardedOptimizer: refusals", "[data_parallel]") {
  const auto alone = optim::local_communicators(1);
  CHECK_THROWS_WITH(optim::ShardedOptimizer(nullptr, *alone[0]),
                    "ShardedOptimizer: the optimiser is null");
  const std::vector<Tensor> params = parameters(1);
  CHECK_THROWS_WITH(
      optim::ShardedOptimizer(
          std::make_unique<optim::ShardedOptimizer>(kinds[0].make(params), *alone[0]), *alone[0]),
      "ShardedOptimizer: it is sharded already");
  optim::ShardedOptimizer optimizer(kinds[0].make(params), *alone[0]);
  NamedTensors state = optimizer.state_dict();
  state.pop_back();
  CHECK_THROWS_WITH(optimizer.load_state_dict(state), Catch::Matchers::Contains("missing"));
  state = optimizer.state_dict();
  state.emplace_back("momentum.0", ones({7, 13}));  // of another optimiser
  CHECK_THROWS_WITH(optimizer.load_state_dict(state), Catch::Matchers::Contains("momentum.0"));
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  parts.push_back(kinds[0].make({ones({2}).requires_grad_()}));
  parts.push_back(std::make_unique<optim::ShardedOptimizer>(kinds[0].make(params), *alone[0]));
  CHECK_THROWS_WITH(optim::CombinedOptimizer(std::move(parts)),
                    "CombinedOptimizer: optimiser 1 is a ShardedOptimizer; shard the "
                    "CombinedOptimizer instead");
}

TEST_CASE("ShardedOptimizer: each rank frees the state of the others' parameters",
          "[data_parallel]") {
  std::vector<int> freed(2), kept(2);
  on_ranks(2, [&](Communicator& c) {
    const Tensor a = ones({3, 2}).requires_grad_(), b = ones({2, 3}).requires_grad_();
    auto adam = kinds[0].make({a, b});
    NamedTensors state = adam->state_dict();
    state.erase(state.begin());  // the counts of updates
    const optim::ShardedOptimizer optimizer(std::move(adam), c);
    for (const auto& [name, tensor] : state)
      ++(tensor.is_sole_owner() ? freed : kept)[static_cast<size_t>(c.rank())];
  });
  CHECK(freed == std::vector<int>{2, 2});  // the two moments of one parameter
  CHECK(kept == std::vector<int>{2, 2});
}

TEST_CASE("ShardedOptimizer: a gradient that one rank cannot use stops all ranks",
          "[data_parallel]") {
  std::vector<std::string> errors(2);
  std::vector<int> unchanged(2);
  on_ranks(2, [&](Communicator& c) {
    const auto rank = static_cast<size_t>(c.rank());
    const std::vector<Tensor> params = parameters(1), before = parameters(1);
    optim::ShardedOptimizer optimizer(kinds[2].make(params), c);
    for (const Tensor& p : params) p.set_grad(ones(p.shape()));
    params[0].set_grad(full({7, 13}, NAN));  // of Muon
    try {
      optimizer.step();
    } catch (const Error& e) {
      errors[rank] = e.what();
    }
    for (size_t i = 0; i < params.size(); ++i) unchanged[rank] += same_bits(params[i], before[i]);
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Matchers::Contains("shape (7, 13)") &&
                          Catch::Matchers::Contains("NaN or an infinity"));
  CHECK(unchanged == std::vector<int>{5, 5});
}

TEST_CASE("ShardedOptimizer: a parameter of one rank whose dtype has changed stops all ranks",
          "[data_parallel]") {
  std::vector<std::string> errors(2);
  std::vector<int> unchanged(2);
  on_ranks(
      2,
      [&](Communicator& c) {
        const auto rank = static_cast<size_t>(c.rank());
        const nn::Linear of_first(4, 3, {.bias = false}), of_second(2, 2, {.bias = false});
        optim::ShardedOptimizer optimizer(kinds[0].make({of_first.weight, of_second.weight}), c);
        nn::Linear(of_first).to(float64);
        const std::vector<Tensor> params{of_first.weight, of_second.weight};
        std::vector<Tensor> before;
        for (const Tensor& p : params) {
          p.set_grad(ones_like(p));
          before.push_back(p.detach().clone());
        }
        try {
          optimizer.step();
        } catch (const Error& e) {
          errors[rank] = e.what();
        }
        for (size_t i = 0; i < 2; ++i) unchanged[rank] += same_bits(params[i], before[i]);
      },
      2);
  for (const std::string& error : errors)
    CHECK(error ==
          "AdamW: parameter 0 of shape (3, 4): expected float32, the dtype of its state, got "
          "float64");
  CHECK(unchanged == std::vector<int>{2, 2});
}

TEST_CASE("ShardedOptimizer: a rule that throws on one rank stops the others at once",
          "[data_parallel]") {
  struct Failing : optim::TensorOptimizer {
    explicit Failing(optim::ParameterGroups params)
        : TensorOptimizer("Failing", std::move(params), 0.1, 0, {}, [](auto& p) {
            if (p.grad.numel() == 3) throw std::runtime_error("the rule has failed");
          }) {}
  };
  std::vector<std::string> errors(2);
  on_ranks(2, [&](Communicator& c) {
    const std::vector<Tensor> params{ones({4}).requires_grad_(), ones({3}).requires_grad_()};
    optim::ShardedOptimizer optimizer(std::make_unique<Failing>(params), c);
    for (const Tensor& p : params) p.set_grad(ones_like(p));
    try {
      optimizer.step();
    } catch (const optim::OtherRankFailed&) {
      errors[static_cast<size_t>(c.rank())] = "another rank";
    } catch (const std::exception& e) {
      errors[static_cast<size_t>(c.rank())] = e.what();
    }
  });
  CHECK(errors == std::vector<std::string>{"another rank", "the rule has failed"});
}

TEST_CASE("ShardedOptimizer: frozen compressed parameters stay as they are", "[data_parallel]") {
  std::vector<int> right(2);
  on_ranks(2, [&](Communicator& c) {
    const Tensor a = ones({3}).requires_grad_(), frozen = ones({40, 32}).to(int8),
                 before = frozen.to(float32);
    optim::ShardedOptimizer optimizer(
        std::make_unique<optim::SGD>(std::vector<Tensor>{a, frozen}, optim::SGDOptions{.lr = 0.5}),
        c);
    a.set_grad(ones({3}));
    optimizer.step();
    right[static_cast<size_t>(c.rank())] =
        same_bits(a, full({3}, 0.5)) && same_bits(frozen.to(float32), before);
  });
  CHECK(right == std::vector<int>{1, 1});
}

TEST_CASE("ShardedOptimizer: a step makes gathered states and saved weights outdated, on all ranks",
          "[data_parallel]") {
  std::vector<int> gathered(2), after(2), refused(2);
  on_ranks(2, [&](Communicator& c) {
    const auto rank = static_cast<size_t>(c.rank());
    const std::vector<Tensor> params{ones({3}).requires_grad_(), ones({2}).requires_grad_()};
    optim::ShardedOptimizer optimizer(kinds[0].make(params), c);
    const auto missing = [&] {
      int count = 0;
      for (const auto& [name, tensor] : optimizer.state_dict()) count += !tensor.defined();
      return count;
    };
    optimizer.gather_state();
    gathered[rank] = missing();
    std::vector<Tensor> losses;
    for (const Tensor& p : params) losses.push_back(sum(p * p)), p.set_grad(ones_like(p));
    optimizer.step();
    after[rank] = missing();
    for (const Tensor& loss : losses) {
      try {
        loss.backward();
      } catch (const Error&) {
        ++refused[rank];
      }
    }
  });
  CHECK(gathered == std::vector<int>{0, 2});
  CHECK(after == std::vector<int>{2, 2});
  CHECK(refused == std::vector<int>{2, 2});
}

}  // namespace sharded_test
