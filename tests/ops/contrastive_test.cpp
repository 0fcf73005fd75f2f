// Contrastive losses against their formulas and PyTorch, at all magnitudes; memory.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace contrastive_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Tensors = std::vector<Tensor>;

namespace {

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

/// The similarity of row i of a and row j of b.
double similarity(const Tensor& a, int64_t i, const Tensor& b, int64_t j, bool cosine) {
  const Values x = values(a), y = values(b);
  const auto D = static_cast<size_t>(a.size(-1));
  double dot = 0, xx = 0, yy = 0;
  for (size_t c = 0; c < D; ++c) {
    const double u = x[static_cast<size_t>(i) * D + c], v = y[static_cast<size_t>(j) * D + c];
    dot += u * v, xx += u * u, yy += v * v;
  }
  return cosine ? dot / std::sqrt(xx * yy) : dot;
}

/// -log(exp(own / t) / sum of exp(s / t) over s in `all`), with the temperature t.
double loss_of(double own, const std::vector<double>& all, double temperature) {
  double sum = 0;
  for (const double s : all) sum += std::exp((s - own) / temperature);
  return std::log(sum);
}

Tensor nt_xent_of(const Tensor& z, double temperature) {
  return nt_xent(z, {.temperature = temperature});
}

}  // namespace

TEST_CASE("contrastive: InfoNCE equals the lecture's formula, written out", "[contrastive]") {
  constexpr double t = 0.4;
  for (const bool cosine : {false, true})
    for (const auto& [N, K, D] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 1, 1}, {2, 3, 5}, {7, 11, 13}, {3, 0, 2}}) {
      const Tensor a = randn({N, D}, float64), p = randn({N, D}, float64);
      const Tensor own = randn({N, K, D}, float64), shared = randn({K, D}, float64);
      double of_own = 0, of_shared = 0;
      for (int64_t i = 0; i < N; ++i) {
        const double positive = similarity(a, i, p, i, cosine);
        std::vector<double> x{positive}, y{positive};
        for (int64_t k = 0; k < K; ++k) {
          x.push_back(similarity(a, i, own.reshape({N * K, D}), i * K + k, cosine));
          y.push_back(similarity(a, i, shared, k, cosine));
        }
        of_own += loss_of(positive, x, t) / static_cast<double>(N);
        of_shared += loss_of(positive, y, t) / static_cast<double>(N);
      }
      const ContrastiveOptions options{.temperature = t, .cosine = cosine};
      CHECK(info_nce(a, p, own, options).item() == Approx(of_own).epsilon(1e-12).margin(1e-14));
      CHECK(info_nce(a, p, shared, options).item() ==
            Approx(of_shared).epsilon(1e-12).margin(1e-14));
    }
}

TEST_CASE("contrastive: NT-Xent and CLIP's loss equal their formulas, written out",
          "[contrastive]") {
  constexpr double t = 0.3;
  for (const bool cosine : {false, true})
    for (const int64_t N : {2, 3, 37, 131}) {
      const Tensor a = randn({N, 5}, float64), b = randn({N, 5}, float64), z = cat({a, b}, 0);
      double nt = 0, clip = 0;
      for (int64_t i = 0; i < 2 * N; ++i) {
        std::vector<double> others;
        for (int64_t k = 0; k < 2 * N; ++k)
          if (k != i) others.push_back(similarity(z, i, z, k, cosine));
        nt += loss_of(similarity(z, i, z, (i + N) % (2 * N), cosine), others, t);
      }
      for (int64_t i = 0; i < N; ++i) {
        std::vector<double> row, column;
        for (int64_t k = 0; k < N; ++k) {
          row.push_back(similarity(a, i, b, k, cosine));
          column.push_back(similarity(a, k, b, i, cosine));
        }
        const double own = similarity(a, i, b, i, cosine);
        clip += loss_of(own, row, t) + loss_of(own, column, t);
      }
      const ContrastiveOptions options{.temperature = t, .cosine = cosine};
      const auto n = static_cast<double>(2 * N);
      CHECK(nt_xent(z, options).item() == Approx(nt / n).epsilon(1e-12));
      CHECK(nt_xent(a, b, options).item() == Approx(nt / n).epsilon(1e-12));
      CHECK(clip_loss(a, b, options).item() == Approx(clip / n).epsilon(1e-12));
    }
}

TEST_CASE("contrastive: PyTorch's losses and gradients", "[contrastive][golden]") {
  const golden::File file("contrastive");
  const std::vector<std::string> names{"own_negatives", "shared_negatives", "among_keys",
                                       "nt_xent",       "nt_xent_blocks",   "nt_xent_smallest",
                                       "clip",          "clip_blocks"};
  for (const Dtype dtype : {float64, float32})
    for (const std::string& name : names)
      for (const bool cosine : {false, true}) {
        const std::string key = name + (cosine ? "_cosine." : "_dot.");
        CAPTURE(key, dtype);
        Tensors x;
        while (file.has(key + "in." + std::to_string(x.size())))
          x.push_back(file.get(key + "in." + std::to_string(x.size()), dtype));
        Tensors wanted;
        for (Tensor& in : x)
          if (is_floating(in.dtype())) wanted.push_back(in.requires_grad_());
        const ContrastiveOptions options{.learned_temperature = x.back(), .cosine = cosine};
        const Tensor loss = name.starts_with("nt_xent") ? nt_xent(x[0], options)
                            : name.starts_with("clip")  ? clip_loss(x[0], x[1], options)
                            : name == "among_keys"
                                ? contrastive_cross_entropy(x[0], x[1], x[2], options)
                                : info_nce(x[0], x[1], x[2], options);
        const double tolerance = dtype == float64 ? 1e-9 : 1e-4;
        CHECK(golden::difference(loss, file.get(key + "loss")) < tolerance);
        const Tensors found = grad({loss}, wanted);
        for (size_t i = 0; i < found.size(); ++i) {
          const Tensor expected = file.get(key + "grad." + std::to_string(i));
          // The cosine of one-element vectors is a sign: its gradient is 0.
          if (norm(expected).item() < 1e-12)
            CHECK(norm(found[i]).item() < 1e-4);
          else
            CHECK(golden::difference(found[i], expected) < tolerance);
        }
      }
}

TEST_CASE("contrastive: CLIP's logit scale exp(s) equals a temperature of exp(-s)",
          "[contrastive]") {
  const Tensor a = randn({5, 3}, float64).requires_grad_(),
               b = randn({5, 3}, float64).requires_grad_(),
               s = full({}, 1.2, float64).requires_grad_();
  const auto loss = [](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{clip_loss(x[0], x[1], {.learned_temperature = exp(-x[2])})};
  };
  const Tensor logits = matmul(normalize(a), normalize(b).mT()) * std::exp(1.2);
  const Tensor expected =
      (cross_entropy(logits, arange(5)) + cross_entropy(logits.mT(), arange(5))) / 2.0;
  CHECK(difference(loss({a, b, s})[0], expected) < 1e-12);
  const auto first = gradcheck(loss, {a, b, s}), second = gradgradcheck(loss, {a, b, s});
  CHECKED_ELSE(first.ok) FAIL(first.message);
  CHECKED_ELSE(second.ok) FAIL(second.message);
}

TEST_CASE("contrastive: values of every magnitude", "[contrastive]") {
  // Compares float32 with float64 on the same values.
  const auto check = [](const Tensor& z, const ContrastiveOptions& options, double tolerance) {
    CAPTURE(options.temperature, options.cosine);
    const Tensor x = z.to(float64).detach().requires_grad_(),
                 y = z.clone().detach().requires_grad_();
    const Tensor wide = nt_xent(x, options), narrow = nt_xent(y, options);
    CHECK(narrow.item() == Approx(wide.item()).epsilon(tolerance));
    const Tensor expected = grad({wide}, {x})[0], found = grad({narrow}, {y})[0];
    CHECK(std::isfinite(norm(found).item()));
    CHECK(golden::difference(found, expected) < tolerance);
  };
  for (const double size : {1e-20, 1e-10, 1.0, 1e10, 1e18}) {
    CAPTURE(size);
    const Tensor z = randn({22, 7}) * size;
    check(z, {.temperature = 0.5}, 1e-5);
    check(z, {.temperature = 1e-3}, 1e-2);  // rounding of the similarities, times 1000
    check(z, {.temperature = 1, .cosine = false}, 1e-4);
  }
  // A zero vector has similarity 0 to everything.
  Tensor z = randn({6, 3});
  z[1].zero_();
  z.requires_grad_();
  const Tensor loss = nt_xent(z);
  CHECK(std::isfinite(loss.item()));
  CHECK(std::isfinite(norm(grad({loss}, {z})[0]).item()));
}

TEST_CASE("contrastive: indistinguishable inputs have loss log(2N - 1)", "[contrastive]") {
  for (const int64_t N : {2, 3, 257}) {
    const Tensor z = ones({2 * N, 3}, float64).requires_grad_();
    const Tensor loss = nt_xent_of(z, 1e-3);
    CHECK(loss.item() == Approx(std::log(2 * N - 1)).epsilon(1e-12));
    CHECK(norm(grad({loss}, {z})[0]).item() < 1e-8);
    CHECK(clip_loss(z, z).item() == Approx(std::log(2 * N)).epsilon(1e-12));
  }
  // Perfectly separated pairs have loss 0.
  const Tensor apart = cat({eye(5, float64), eye(5, float64)}, 0);
  CHECK(nt_xent_of(apart, 1e-2).item() < 1e-40);
  CHECK(clip_loss(eye(5), eye(5), {.temperature = 1e-2}).item() < 1e-20);
}

TEST_CASE("contrastive: memory grows linearly with the batch", "[contrastive][fused]") {
  auto peak = [](int64_t rows) {
    const Tensor z = randn({rows, 8}).requires_grad_();
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    nt_xent(z).backward();
    return memory_stats().peak - before;
  };
  peak(256);
  const int64_t once = peak(4096), twice = peak(8192);
  CHECK(twice <= 2 * once + (1 << 20));
  CHECK(once < int64_t{4096} * 4096 / 2);  // half a byte per pair
}

TEST_CASE("contrastive: the same bits at any number of threads", "[contrastive][fused]") {
  for (const Dtype dtype : {float32, float64}) {
    const Tensor z = randn({1046, 37}, dtype).requires_grad_(), keys = randn({311, 37}, dtype);
    const Tensor targets = randint(0, 311, {1046});
    auto run = [&](int threads) {
      const Threads scope(threads);
      const Tensor one = nt_xent(z), other = contrastive_cross_entropy(z, keys, targets);
      return Tensors{one.detach(), other.detach(), grad({one}, {z})[0], grad({other}, {z})[0]};
    };
    const Tensors first = run(1);
    for (const int threads : {2, 3})
      for (size_t i = 0; i < first.size(); ++i) CHECK(golden::same(run(threads)[i], first[i]));
  }
}

}  // namespace contrastive_test
