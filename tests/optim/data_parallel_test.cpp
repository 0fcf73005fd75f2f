// Ranks of one process exchange gradients: expected values come from one rank that runs all
// batches.

#include "gradus/optim/parallel/data_parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "gradus/core/core.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/support/ranks.h"

namespace data_parallel_test {

using namespace gradus;
using Catch::Matchers::Contains;
using optim::Communicator;

namespace {

/// Parameters of odd sizes, one of them used only for some batches, one used twice, and one in
/// double precision.
struct Net {
  std::vector<Tensor> params;
  explicit Net(uint64_t seed) {
    manual_seed(seed);
    for (const Shape& shape : {Shape{7, 13}, Shape{13}, Shape{13, 5}, Shape{}, Shape{5, 3}})
      params.push_back(randn(shape).requires_grad_());
    params.push_back(randn({3}, float64).requires_grad_());
    params.push_back(randn({2, 2}));  // frozen
  }
  Tensor loss(int64_t batch) const {
    manual_seed(100 + static_cast<uint64_t>(batch));
    const Tensor x = randn({4, 7});
    Tensor h = tanh(matmul(x, params[0]) + params[1]);
    h = tanh(matmul(h * params[1], params[2]));
    if (batch % 3 == 1) h = h * params[3];
    return mean(matmul(h, params[4]).to(float64) * params[5]);
  }
};

/// Counts the exchanges of "the gradients of step 3".
struct Counting : Communicator {
  Communicator& inner;
  std::atomic<int>& sent;
  Counting(Communicator& inner, std::atomic<int>& sent) : inner(inner), sent(sent) {}
  int rank() const override { return inner.rank(); }
  int size() const override { return inner.size(); }
  int threads() const override { return 1; }
  bool abort() noexcept override { return inner.abort(); }
  void all_to_all(const std::vector<optim::SentPieces>& send,
                  const std::vector<optim::ReceivedPieces>& receive,
                  const std::string& what) override {
    inner.all_to_all(send, receive, what);
    if (what == "the gradients of step 3") ++sent;
  }
};

std::vector<Tensor> gradients(const Net& net) {
  std::vector<Tensor> all;
  for (const Tensor& p : net.params) all.push_back(p.grad());
  return all;
}

}  // namespace

TEST_CASE("DataParallel: N ranks give the bits of one rank that runs N passes", "[data_parallel]") {
  const int ranks = GENERATE(1, 2, 3, 8);
  const int64_t passes = GENERATE(1, 3);
  const int64_t bucket_bytes = GENERATE(1, 100, 1 << 20);
  CAPTURE(ranks, passes, bucket_bytes);

  const Net one(1);
  on_ranks(1, [&](Communicator& alone) {
    optim::DataParallel parallel(one.params, alone);
    for (int64_t i = 0; i < ranks * passes; ++i)
      parallel.backward(one.loss(i), i + 1 == ranks * passes);
  });
  const std::vector<Tensor> expected = gradients(one);
  REQUIRE(expected[3].defined() == (ranks * passes > 1));

  std::vector<std::vector<Tensor>> got(static_cast<size_t>(ranks));
  const std::vector<std::string> errors = on_ranks(ranks, [&](Communicator& c) {
    const Net net(1 + static_cast<uint64_t>(c.rank()));  // rank 0's weights replace the others'
    optim::DataParallel parallel(net.params, c, {.bucket_bytes = bucket_bytes});
    for (int step = 0; step < 2; ++step)  // the second starts anew
      for (int64_t pass = 0; pass < passes; ++pass)
        parallel.backward(net.loss(pass * c.size() + c.rank()), pass + 1 == passes);
    got[static_cast<size_t>(c.rank())] = gradients(net);
  });
  for (size_t r = 0; r < got.size(); ++r) {
    CAPTURE(r);
    REQUIRE(errors[r] == "");
    for (size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(got[r][i], expected[i]));
  }
}

TEST_CASE("DataParallel: between the passes of a step there are no sums, or this rank's",
          "[data_parallel]") {
  for (const int ranks : {1, 2}) {
    const std::vector<std::string> errors = on_ranks(ranks, [](Communicator& c) {
      const Tensor w = ones({2}).requires_grad_();
      optim::DataParallel parallel({w}, c);
      for (int step = 0; step < 2; ++step) {
        w.set_grad(full({2}, 9));  // discarded
        parallel.backward(sum(w), /*last=*/false);
        core::check(c.size() == 1 ? same_bits(w.grad(), ones({2})) : !w.grad().defined(),
                    "a gradient after the first pass");
        parallel.backward(sum(w));
        core::check(same_bits(w.grad(), full({2}, 2 * c.size())), "a wrong sum");
      }
    });
    CHECK(errors == std::vector<std::string>(static_cast<size_t>(ranks)));
  }
}

TEST_CASE("DataParallel: adds up parts of thousands of numbers", "[data_parallel]") {
  // Each rank adds up half of the numbers; rank 1 those of the first tensor from the 2049th on.
  const int64_t sizes[] = {6096, 2000};
  const std::vector<std::string> errors = on_ranks(2, [&](Communicator& c) {
    std::vector<Tensor> params, factors;
    for (const int64_t n : sizes) {
      params.push_back(ones({n}).requires_grad_());
      factors.push_back(arange(n).to(float32));
    }
    optim::DataParallel parallel(params, c);
    parallel.backward((sum(params[0] * factors[0]) + sum(params[1] * factors[1])) * (c.rank() + 1));
    for (size_t i = 0; i < params.size(); ++i)
      if (!same_bits(params[i].grad(), factors[i] * 3)) core::fail("tensor ", i, " is wrong");
  });
  CHECK(errors == std::vector<std::string>{"", ""});
}

TEST_CASE("DataParallel: exchanges gradients while backward still runs", "[data_parallel]") {
  // When backward reaches x, both ranks have exchanged the gradient of the last factor.
  std::atomic<int> sent = 0, seen = 0;
  const std::vector<std::string> errors = on_ranks(2, [&](Communicator& c) {
    Counting counting(c, sent);
    const Tensor frozen = ones({4}), first = ones({4}).requires_grad_(),
                 middle = ones({4}).requires_grad_(), last = ones({4}).requires_grad_();
    optim::DataParallel parallel({frozen, first, middle, last}, counting, {.bucket_bytes = 1});
    const Tensor x = first * frozen;
    x.register_hook([&](const Tensor&) {
      while (sent < 2 * 3) std::this_thread::yield();  // flags, parts and sums, of both ranks
      ++seen;
      return Tensor();
    });
    parallel.backward(sum(x * middle * last), true, "the gradients of step 3");
  });
  CHECK(errors == std::vector<std::string>{"", ""});
  CHECK(seen == 2);
  CHECK(sent == 2 * 3 * 3);  // three tensors: nothing is exchanged for a frozen one
}

TEST_CASE("DataParallel: a bucket is full from bucket_bytes on", "[data_parallel]") {
  // Three parameters of 16 bytes.
  const auto buckets_of = [](int64_t bucket_bytes) {
    std::atomic<int> sent = 0;
    CHECK(on_ranks(2, [&](Communicator& c) {
            Counting counting(c, sent);
            std::vector<Tensor> params;
            for (int i = 0; i < 3; ++i) params.push_back(ones({4}).requires_grad_());
            optim::DataParallel parallel(params, counting, {.bucket_bytes = bucket_bytes});
            const Tensor loss = sum(params[0] * params[1] * params[2]);
            parallel.backward(loss, true, "the gradients of step 3");
          }) == std::vector<std::string>{"", ""});
    return sent / 6.0;  // a bucket exchanges flags, parts and sums, on both ranks
  };
  CHECK(buckets_of(16) == 3);
  CHECK(buckets_of(17) == 2);
  CHECK(buckets_of(32) == 2);
  CHECK(buckets_of(33) == 1);
}

TEST_CASE("DataParallel: its times grow with each pass, and are 0 on one rank", "[data_parallel]") {
  for (const int ranks : {1, 2}) {
    std::vector<double> exchange(2), wait(2);
    on_ranks(ranks, [&](Communicator& c) {
      const Tensor w = ones({2}).requires_grad_();
      optim::DataParallel parallel({w}, c);
      optim::DataParallel::Times before = parallel.times();
      if (before.exchange != 0 || before.wait != 0) return;
      parallel.backward(sum(w));
      before = parallel.times();
      parallel.backward(sum(w));
      exchange[static_cast<size_t>(c.rank())] = parallel.times().exchange - before.exchange;
      wait[static_cast<size_t>(c.rank())] = parallel.times().wait - before.wait;
    });
    for (size_t r = 0; r < 2; ++r) {
      CHECK((exchange[r] > 0) == (ranks == 2));
      CHECK((wait[r] > 0) == (ranks == 2));
    }
  }
}

TEST_CASE("DataParallel: a graph of the weights that rank 0's replaced is refused",
          "[data_parallel]") {
  const std::vector<std::string> errors = on_ranks(2, [](Communicator& c) {
    const Tensor w = full({2}, c.rank()).requires_grad_(), loss = sum(w * w);
    const optim::DataParallel parallel({w}, c);
    loss.backward();
  });
  CHECK(std::count(errors.begin(), errors.end(), "another rank") == 1);
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("was changed in place") || Catch::Equals("another rank"));
}

TEST_CASE("DataParallel: copies frozen compressed weights from rank 0", "[data_parallel]") {
  const Dtype type = GENERATE(bfloat16, int8);
  const Tensor whole = arange(5 * 40).to(float32).reshape({5, 40});
  const std::vector<std::string> errors = on_ranks(2, [&](Communicator& c) {
    const Tensor own = (whole * (c.rank() == 0 ? 1.0 : -3.0)).to(type);
    const optim::DataParallel parallel({own, ones({2}).requires_grad_()}, c);
    core::check(own.to(float32).to_vector<float>() == whole.to(type).to(float32).to_vector<float>(),
                "another weight");
  });
  CHECK(errors == std::vector<std::string>{"", ""});
}

TEST_CASE("DataParallel: refuses parameters that differ between ranks", "[data_parallel]") {
  const std::vector<std::string> errors = on_ranks(3, [](Communicator& c) {
    const Tensor a = ones({2}).requires_grad_(), b = ones({c.rank() == 2 ? 4 : 3}).requires_grad_();
    optim::DataParallel({a, b}, c);
  });
  const std::string differs =
      "DataParallel: parameter 1 is float32 (4,) on rank 2 and float32 (3,) on rank 0";
  CHECK(errors == std::vector<std::string>{differs, "another rank", "another rank"});
  CHECK(on_ranks(2, [](Communicator& c) {
          std::vector<Tensor> params{ones({2}).requires_grad_()};
          if (c.rank() == 1) params.push_back(ones({2}).requires_grad_());
          optim::DataParallel(params, c);
        })[0] == "DataParallel: parameter 1 is float32 (2,) on rank 1 and missing on rank 0");
  CHECK(on_ranks(2,
                 [](Communicator& c) {
                   optim::DataParallel({ones({2}).requires_grad_(c.rank() == 0)}, c);
                 })[0] ==
        "DataParallel: parameter 0 is float32 (2,) frozen on rank 1 and float32 (2,) on rank 0");
  CHECK(on_ranks(1, [](Communicator& c) {
          optim::DataParallel({ones({2}).requires_grad_()}, c, {.bucket_bytes = 0});
        })[0] == "DataParallel: expected bucket_bytes > 0, got 0");
  CHECK(on_ranks(1, [](Communicator& c) {
          const Tensor w = ones({2}).requires_grad_();
          optim::DataParallel({ones({2}), w, w}, c);
        })[0] == "DataParallel: parameter 2 is listed twice, first as parameter 1");
  const Tensor strided = ones({2, 3}).transpose(0, 1), made = ones({2}).requires_grad_() * 2.0;
  for (const Tensor& bad : {strided, made, ones({2}, int64)})
    CHECK(on_ranks(1, [&](Communicator& c) { optim::DataParallel({bad}, c); })[0] ==
          "DataParallel: parameter 0: expected a contiguous leaf of float32, float64, bfloat16 or "
          "int8");
}

TEST_CASE("DataParallel: a rank that fails or stays away ends the others", "[data_parallel]") {
  const auto train = [](Communicator& c, int fault, int bad = 1) {
    const Tensor w = ones({2}).requires_grad_();
    optim::DataParallel parallel({w}, c);
    parallel.backward(sum(w));
    if (c.rank() == bad && fault == 1) core::fail("the disk is full");
    if (c.rank() == bad && fault == 2) return;
    const Tensor x = w * 2;
    if (c.rank() == bad)
      x.register_hook([&](const Tensor&) -> Tensor {
        if (fault == 4) parallel.backward(sum(w));
        core::fail("a hook failed");
      });
    parallel.backward(sum(x), true, "the gradients of step 2");
  };
  std::vector<std::string> errors = on_ranks(3, [&](Communicator& c) { train(c, 1); });
  CHECK(errors == std::vector<std::string>{"another rank", "the disk is full", "another rank"});
  errors = on_ranks(  // the others end at once, not at this deadline
      3, [&](Communicator& c) { train(c, 1, 0); }, 300);
  CHECK(errors == std::vector<std::string>{"the disk is full", "another rank", "another rank"});
  errors = on_ranks(3, [&](Communicator& c) { train(c, 4); });
  CHECK(errors == std::vector<std::string>{"another rank",
                                           "DataParallel: backward was called inside backward",
                                           "another rank"});
  errors = on_ranks(3, [&](Communicator& c) { train(c, 3); });
  CHECK(errors == std::vector<std::string>{"another rank", "a hook failed", "another rank"});
  errors = on_ranks(
      3, [&](Communicator& c) { train(c, 2); }, 0.2);
  CHECK(errors[1] == "");
  const std::string late = "rank 1 has not sent the gradients of step 2 within 0.2 s";
  CHECK((errors[0] == late) + (errors[2] == late) == 1);  // whoever notices first reports it
  CHECK((errors[0] == "another rank") + (errors[2] == "another rank") == 1);
}

TEST_CASE("DataParallel: refuses a parameter converted since its construction", "[data_parallel]") {
  std::vector<std::string> errors = on_ranks(2, [](Communicator& c) {
    nn::Linear layer(3, 2, {.bias = false}), frozen(32, 1, {.bias = false});
    optim::DataParallel parallel({frozen.weight, layer.weight}, c);
    frozen.weight.requires_grad_(false);
    frozen.to(bfloat16);  // allowed, as it gets no gradient
    parallel.backward(sum(layer(ones({1, 3}))));
    layer.to(float64);
    parallel.backward(sum(layer(ones({1, 3}, float64))));
  });
  std::sort(errors.begin(), errors.end());
  CHECK(errors == std::vector<std::string>{"DataParallel: parameter 1: expected float32, the dtype "
                                           "of its bucket, got float64",
                                           "another rank"});
}

TEST_CASE("DataParallel: a loss that is refused changes no gradient", "[data_parallel]") {
  for (const int ranks : {1, 2})
    for (const bool undefined : {true, false}) {
      std::atomic<int> changed = 0;  // the other rank may still construct its DataParallel
      const std::vector<std::string> errors = on_ranks(ranks, [&](Communicator& c) {
        const Tensor w = ones({2}).requires_grad_();
        optim::DataParallel parallel({w}, c);
        w.set_grad(full({2}, 9));
        try {
          parallel.backward(undefined ? Tensor() : w * w);
        } catch (const Error&) {
          changed += !same_bits(w.grad(), full({2}, 9));
          throw;
        }
      });
      CHECK(changed == 0);
      CHECK(std::count(errors.begin(), errors.end(),
                       undefined
                           ? "DataParallel: the loss does not require grad"
                           : "DataParallel: expected a loss of one element, got shape (2,)") == 1);
    }
}

TEST_CASE("DataParallel: with one rank, a pass that throws ends the step", "[data_parallel]") {
  const auto alone = optim::local_communicators(1);
  const Tensor w = tensor({1, 2}).requires_grad_();
  optim::DataParallel parallel({w}, *alone[0]);
  const auto fails = [&] {
    const Tensor x = w * 2;
    x.register_hook([](const Tensor&) -> Tensor { core::fail("a hook failed"); });
    parallel.backward(sum(x));
  };
  for (const bool in_backward : {true, false}) {
    parallel.backward(sum(w * w), /*last=*/false);
    if (in_backward)
      CHECK_THROWS_WITH(fails(), "a hook failed");
    else
      CHECK_THROWS_WITH(parallel.backward(w * w), Contains("one element"));
    parallel.backward(sum(w * w));
    CHECK(w.grad().to_vector<int>() == std::vector<int>{2, 4});
  }
}

TEST_CASE("DataParallel: if its thread cannot start, it leaves no hooks", "[data_parallel]") {
  pthread_attr_t usual, huge;  // no thread has a stack of 2^60 bytes
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_getattr_default_np(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 60) == 0);
  const Tensor params[] = {ones({2}).requires_grad_(), ones({2}).requires_grad_()};
  const std::vector<std::string> errors = on_ranks(2, [&](Communicator& c) {
    optim::all_gather(c, "", "nothing");  // both ranks have started
    pthread_setattr_default_np(&huge);
    optim::DataParallel({params[c.rank()]}, c);
  });
  pthread_setattr_default_np(&usual);
  const std::string failed = "DataParallel: the thread that exchanges gradients cannot start";
  CHECK_THAT(errors[0], Contains(failed) || Catch::Equals("another rank"));
  CHECK_THAT(errors[0] + errors[1], Contains(failed));
  for (const Tensor& p : params) CHECK(p.impl().hooks.empty());
}

TEST_CASE("DataParallel: leaves its parameters as they were when it ends", "[data_parallel]") {
  const Tensor w = ones({2}).requires_grad_();
  on_ranks(2, [&](Communicator& c) {
    if (c.rank() == 0) optim::DataParallel({w}, c);
    if (c.rank() == 1) optim::DataParallel({ones({2}).requires_grad_()}, c);
  });
  sum(w * 3).backward();
  CHECK(w.grad().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("on_ranks: an exception of any type ends the other ranks", "[data_parallel]") {
  const std::vector<std::string> errors = on_ranks(3, [](Communicator& c) {
    if (c.rank() == 1) throw std::out_of_range("no such key");
    optim::all_gather(c, "", "nothing");
  });
  CHECK(errors == std::vector<std::string>{"another rank", "no such key", "another rank"});
  CHECK(on_ranks(1, [](Communicator&) { throw 7; })[0] == "an exception of an unknown type");
}

TEST_CASE("same_bits: the sign of 0, NaN, shapes and dtypes", "[data_parallel]") {
  const Tensor x = tensor({0, NAN, 1});
  CHECK(same_bits(x, x.clone()));
  CHECK_FALSE(same_bits(x, tensor({-0.0, NAN, 1})));
  CHECK_FALSE(same_bits(x, x.reshape({3, 1})));
  CHECK_FALSE(same_bits(ones({2}), ones({2}, float64)));
  CHECK_FALSE(
      same_bits(tensor({(int64_t{1} << 53) + 1}, int64), tensor({int64_t{1} << 53}, int64)));
  CHECK(same_bits(ones({2, 3}).mT(), ones({3, 2})));
  CHECK(same_bits(ones({2, 32}).to(int8), ones({2, 32}).to(int8)));
  CHECK_FALSE(same_bits(ones({2, 32}).to(int8), zeros({2, 32}).to(int8)));
  CHECK(same_bits({}, {}));
  CHECK_FALSE(same_bits({}, x));
}

TEST_CASE("Communicator: all_gather and broadcast", "[data_parallel]") {
  const int ranks = GENERATE(1, 2, 5);
  std::vector<std::vector<std::string>> gathered(static_cast<size_t>(ranks));
  std::vector<std::string> data(static_cast<size_t>(ranks));
  const std::vector<std::string> errors = on_ranks(ranks, [&](Communicator& c) {
    const auto rank = static_cast<size_t>(c.rank());
    for (int again = 0; again < 3; ++again)
      gathered[rank] = optim::all_gather(c, std::string(rank % 3, 'a'), "letters");
    data[rank] = rank == 0 ? "first" : "other";
    optim::broadcast(c, std::as_writable_bytes(std::span(data[rank])), "a word");
  });
  for (size_t r = 0; r < data.size(); ++r) {
    CHECK(errors[r] == "");
    CHECK(data[r] == "first");
    for (size_t i = 0; i < data.size(); ++i) CHECK(gathered[r][i] == std::string(i % 3, 'a'));
  }
  CHECK_THROWS_WITH(optim::local_communicators(0),
                    "local_communicators: expected at least 1 rank, got 0");
  CHECK_THROWS_WITH(optim::local_communicators(2, 0),
                    "local_communicators: expected a deadline above 0 and up to 1e9 s, got 0");
  CHECK_THROWS_WITH(optim::local_communicators(1, INFINITY),
                    Catch::Contains("up to 1e9 s, got inf"));
}

TEST_CASE("Communicator: refuses data of another size than expected", "[data_parallel]") {
  const std::vector<std::string> errors = on_ranks(2, [](Communicator& c) {
    std::string data(c.rank() == 0 ? 3 : 4, 'x');
    optim::broadcast(c, std::as_writable_bytes(std::span(data)), "a word");
  });
  CHECK(errors[1] == "rank 0 sent 3 bytes of a word, expected 4");
  for (const bool sends : {true, false}) {
    const std::vector<std::string> few = on_ranks(2, [&](Communicator& c) {
      const size_t entries = c.rank() == 1 ? 1 : 2;
      c.all_to_all(std::vector<optim::SentPieces>(sends ? entries : 2),
                   std::vector<optim::ReceivedPieces>(sends ? 2 : entries), "a word");
    });
    CHECK(few[0] == "another rank");
    CHECK(few[1] == std::string("all_to_all: a word: expected entries for 2 ranks, got ") +
                        (sends ? "1 and 2" : "2 and 1"));
  }
}

}  // namespace data_parallel_test
