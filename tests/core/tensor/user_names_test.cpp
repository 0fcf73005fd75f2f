// A user's file with `using namespace gradus`: common names remain free for the user.

#include <gradus/gradus.h>

#include <catch2/catch.hpp>
#include <stack>

namespace user_names_test {

using namespace std;
using namespace gradus;

struct Module {};
struct Linear {};
struct MLP {};
struct Block : nn::Module {
  Block() = default;
};
struct GPT {};
struct Generator {};
struct Node {};
struct Edge {};
struct Engine {};
struct Adam {};
struct Checkpoint {};

// Templates that accept anything: a gradus function of the same name would be ambiguous or, with
// Tensor arguments, found by argument-dependent lookup.
template <class... T>
int check(const T&...) {
  return 1;
}
template <class... T>
int fail(const T&...) {
  return 2;
}
template <class... T>
int record(const T&...) {
  return 3;
}
template <class... T>
int generate(const T&...) {
  return 4;
}

TEST_CASE("common names remain free for users") {
  const Module module{};
  const Linear linear{};
  const MLP mlp{};
  const Block block;
  const GPT gpt{};
  const Generator generator{};
  const Node node{};
  const Edge edge{};
  const Engine engine{};
  const Adam adam{};
  const Checkpoint checkpoint{};
  const Tensor x = ones({2});
  CHECK(check(true, x, module, linear, mlp, block, gpt, generator) == 1);
  CHECK(fail(x, node, edge, engine, adam, checkpoint) == 2);
  CHECK(record("op", vector<Tensor>{x}, vector<Tensor>{x}) == 3);
  CHECK(generate(x) == 4);
  std::stack<Tensor> tensors;  // both namespaces have a stack, so either is written in full
  tensors.push(x);
  CHECK(!empty(vector<Tensor>{x}));
  CHECK(gradus::stack({x, x}).shape() == Shape{2, 2});
  CHECK(core::empty({3}).shape() == Shape{3});
}

}  // namespace user_names_test
