// Out of memory: throws Error, changes nothing, and the library continues to work.

#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "gradus/core/core.h"
#include "gradus/optim/optim.h"
#include "tests/support/child.h"

namespace out_of_memory_test {

using namespace gradus;

#if defined(__linux__)
namespace {

constexpr int64_t large = 16 << 20;  // float32: 64 MB

/// Whether f throws an out-of-memory Error when limited to 32 MB.
template <class F>
bool refused(const F& f) {
  release_cached_memory();
  limit_memory(32 << 20);
  bool said = false;
  try {
    f();
  } catch (const Error& e) {
    said = std::string(e.what()).find("out of memory: ") != std::string::npos;
  }
  unlimit_memory();
  return said;
}

}  // namespace

TEST_CASE("an optimiser step that runs out of memory changes nothing", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          const Tensor a = ones({4}).requires_grad_(), b = zeros({large});
          optim::Adam adam({a, b}, {.lr = 0.1});
          b.requires_grad_();  // b's state is created at the first step
          a.set_grad(ones({4}));
          b.set_grad(zeros({large}));
          for (int i = 0; i < 3; ++i)
            if (!refused([&] { adam.step(); })) return 1;
          for (const auto& [name, x] : adam.state_dict())
            if (name == "step" && sum(x).item<int64_t>() != 0) return 2;
          if (a[0].item() != 1) return 3;
          adam.step();
          return std::abs(a[0].item() - 0.9) < 1e-6 ? 0 : 4;  // Adam's first step has size lr
        }) == 0);
}

TEST_CASE("clipping that runs out of memory changes no gradient", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          const Tensor p = ones({4}).requires_grad_(), q = ones({large}).requires_grad_();
          p.set_grad(ones({4}));
          q.set_grad(ones({large}));
          if (!refused([&] { optim::clip_grad_norm({p, q}, 1); })) return 1;
          return p.grad()[0].item() == 1 && q.grad()[0].item() == 1 ? 0 : 2;
        }) == 0);
}

TEST_CASE("a graph can be freed when there is no memory left", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          const Tensor x = ones({1}).requires_grad_();
          std::optional<Tensor> y = x;
          release_cached_memory();
          limit_memory(8 << 20);
          bool full = false;
          try {
            while (true) y = *y * 1.0001;
          } catch (const std::exception&) {
            full = true;
          }
          y.reset();
          unlimit_memory();
          return full && sum(x * 2).item() == 2 ? 0 : 1;
        }) == 0);
}

TEST_CASE("a product for which BLAS has no memory throws", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          const Tensor a = ones({400, 400}, float64);
          bool said = false;
          std::thread([&] { said = refused([&] { matmul(a, a); }); }).join();
          return said && matmul(a, a)[0][0].item() == 400 ? 0 : 1;
        }) == 0);
}
#endif

}  // namespace out_of_memory_test
