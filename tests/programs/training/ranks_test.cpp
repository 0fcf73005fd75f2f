// Ranks of a training run: what they share and what they refuse. The ranks are threads here.

#include "examples/training/ranks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "gradus/core/ops/ops.h"
#include "tests/support/ranks.h"

namespace ranks_test {

using namespace gradus;
using optim::Communicator;

namespace {

/// Passes all calls on to a communicator that outlives it.
struct Borrowed : Communicator {
  Communicator& inner;
  explicit Borrowed(Communicator& other) : inner(other) {}
  int rank() const override { return inner.rank(); }
  int size() const override { return inner.size(); }
  int threads() const override { return inner.threads(); }
  bool abort() noexcept override { return inner.abort(); }
  void all_to_all(const std::vector<optim::SentPieces>& send,
                  const std::vector<optim::ReceivedPieces>& receive,
                  const std::string& what) override {
    inner.all_to_all(send, receive, what);
  }
};

// Explicit instantiation may name a private member: Ranks itself connects processes only.
using Owned = std::unique_ptr<Communicator>;
Owned& communicator_of(Ranks& ranks);
template <Owned Ranks::*communicator>
struct Access {
  friend Owned& communicator_of(Ranks& ranks) { return ranks.*communicator; }
};
template struct Access<&Ranks::communicator_>;

/// Runs f(ranks) on `count` ranks. Returns their messages, as on_ranks() does.
std::vector<std::string> run_ranks(int count, const std::function<void(const Ranks&)>& f) {
  return on_ranks(count, [&](Communicator& c) {
    Ranks ranks(60);
    communicator_of(ranks) = std::make_unique<Borrowed>(c);
    f(ranks);
  });
}

const std::vector<std::string> no_errors(3);  // of three ranks

Score score_of(int64_t batch) {
  const auto b = static_cast<double>(batch);
  Score score{.loss = b + 0.5, .examples = b + 10};
  if (batch != 1) score.more = {{"accuracy", b / 8, b}, {std::string("a\0b", 3), -b, 2}};
  return score;
}

}  // namespace

TEST_CASE("ranks: scores of all batches arrive on every rank, in the order of the batches") {
  // Of five batches, the ranks score 0 and 3, 1 and 4, and 2.
  std::vector<std::vector<Score>> got(3);
  CHECK(run_ranks(3, [&](const Ranks& ranks) {
          std::vector<Score> own;
          for (int64_t i = ranks.rank(); i < 5; i += 3) own.push_back(score_of(i));
          got[static_cast<size_t>(ranks.rank())] = ranks.gather_scores(own, true, 5, "scores");
        }) == no_errors);
  for (const std::vector<Score>& scores : got) {
    REQUIRE(scores.size() == 5);
    for (size_t i = 0; i < 5; ++i) {
      const Score expected = score_of(static_cast<int64_t>(i));
      CHECK(scores[i].loss == expected.loss);
      CHECK(scores[i].examples == expected.examples);
      REQUIRE(scores[i].more.size() == expected.more.size());
      for (size_t j = 0; j < expected.more.size(); ++j) {
        CHECK(scores[i].more[j].name == expected.more[j].name);
        CHECK(scores[i].more[j].value == expected.more[j].value);
        CHECK(scores[i].more[j].examples == expected.more[j].examples);
      }
    }
  }
}

TEST_CASE("ranks: no rank gets scores if one of them has not scored all of its batches") {
  for (int late = 0; late < 3; ++late) {
    std::vector<size_t> sizes(3, 9);
    CHECK(run_ranks(3, [&](const Ranks& ranks) {
            const bool complete = ranks.rank() != late;
            const std::vector<Score> own(complete ? 1 : 0);
            sizes[static_cast<size_t>(ranks.rank())] =
                ranks.gather_scores(own, complete, 3, "scores").size();
          }) == no_errors);
    CHECK(sizes == std::vector<size_t>{0, 0, 0});
  }
}

TEST_CASE("ranks: a step's loss is added in the order of its batches, and rank 0's state is next") {
  // Batches 0 and 2 are of rank 0. In this order 1e16 absorbs the first 1, in others none or both.
  const std::vector<std::vector<double>> losses{{1e16, -1e16}, {1, 1}};
  std::vector<StepReport> got(2);
  CHECK(run_ranks(2, [&](const Ranks& ranks) {
          const auto rank = static_cast<size_t>(ranks.rank());
          got[rank] = ranks.share_step(losses[rank], {7 + rank, 3 * rank + 1}, 1);
        }) == std::vector<std::string>(2));
  for (const StepReport& report : got) {
    CHECK(report.loss == 1);
    CHECK(report.next.seed == 7);
    CHECK(report.next.counter == 1);
    CHECK_FALSE(report.interrupted);
  }
}

TEST_CASE("ranks: the first value that differs is named, with its rank") {
  using Values = std::vector<std::pair<std::string, std::string>>;
  const auto errors = [](const Values& first, const Values& last) {
    return run_ranks(
        3, [&](const Ranks& ranks) { ranks.expect_same(ranks.rank() == 2 ? last : first); });
  };
  const Values values{{"--dim", "8"}, {"--lr", "0.25"}, {"--seed", "1"}};
  const std::string others = "another rank";
  CHECK(errors(values, values) == no_errors);
  CHECK(errors(values, {{"--dim", "8"}, {"--lr", "0.5"}, {"--seed", "2"}}) ==
        std::vector<std::string>{"rank 2 differs from rank 0: --lr is \"0.5\" instead of \"0.25\"",
                                 others, others});
  const std::vector<std::string> versions{"ranks of different versions of gradus", others, others};
  CHECK(errors(values, {{"--dim", "8"}, {"--rate", "0.25"}, {"--seed", "1"}}) == versions);
  CHECK(errors(values, {{"--dim", "8"}, {"--lr", "0.25"}}) == versions);
  CHECK(errors({{"--dim", "8"}}, values) == versions);
}

TEST_CASE("ranks: weights that differ in one bit are named by their ranks") {
  const auto errors = [](int odd, int scaled) {
    return run_ranks(4, [=](const Ranks& ranks) {
      const Tensor a = ones({3}), b = arange(64).to(float32).reshape({2, 32});
      if (ranks.rank() == odd) a.data<float>()[2] = std::nextafter(1.0F, 2.0F);
      // Twice the numbers: the same bytes in int8, with twice the scales.
      const Tensor packed = (ranks.rank() == scaled ? b * 2.0 : b).to(int8);
      ranks.expect_same_weights({a, packed}, 200);
    });
  };
  const std::string others = "another rank";
  CHECK(errors(-1, -1) == std::vector<std::string>(4));
  CHECK(errors(1, 3) ==
        std::vector<std::string>{"after step 200 the weights of these ranks differ from rank 0's: "
                                 "1 3; are their machines of one kind?",
                                 others, others, others});
}

TEST_CASE("ranks: a process's rank is Open MPI's or MPICH's, or 0 if it was started alone") {
  const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",
                               "PMI_RANK"};
  const auto rank_with = [&](const std::vector<const char*>& values) {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i]) setenv(names[i], values[i], 1);
    const int rank = launched_rank();
    for (const char* name : names) unsetenv(name);
    return rank;
  };
  CHECK(rank_with({nullptr, nullptr, nullptr, nullptr}) == 0);
  CHECK(rank_with({"4", "3", nullptr, nullptr}) == 3);
  CHECK(rank_with({nullptr, nullptr, "4", "2"}) == 2);
  CHECK(rank_with({"4", "3", "4", "2"}) == 3);
  CHECK(rank_with({"x", "3", "2", nullptr}) == 3);
  CHECK(rank_with({"2", "x", nullptr, "1"}) == 1);
  CHECK(rank_with({"1", "3", nullptr, nullptr}) == 0);
  CHECK(rank_with({nullptr, "3", nullptr, "3"}) == 0);
}

}  // namespace ranks_test
