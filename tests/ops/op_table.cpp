// Runs every row of the table through every check.

#include "tests/ops/op_table.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_checks.h"

using Catch::Matchers::Contains;

namespace gradus::testing {
using namespace gradus::core;

// ---- how inputs are drawn ----

Input normal(const Shape& shape) {
  return {shape, [](const Shape& s) { return randn(s, float64); }};
}

Input uniform(const Shape& shape, double low, double high) {
  return {shape, [=](const Shape& s) { return rand(s, float64) * (high - low) + low; }};
}

Input away_from(const Shape& shape, std::vector<double> kinks) {
  return {shape, [kinks = std::move(kinks)](const Shape& s) {
            Tensor x = randn(s, float64);
            for (double kink : kinks) x = where(lt(abs(x - kink), 0.1), x + 0.25, x);
            return x;
          }};
}

Input distinct(const Shape& shape) {
  return {shape,
          [](const Shape& s) { return (randperm(s.numel()).to(float64) * 0.3 - 1.0).reshape(s); }};
}

Input on_grid(const Shape& shape, double offset) {
  return {shape, [offset](const Shape& s) { return randint(-4, 5, s).to(float64) * 0.5 + offset; }};
}

Input indices(const Shape& shape, int64_t n) {
  return {shape, [n](const Shape& s) { return randint(0, n, s); }};
}

Input mask(const Shape& shape, double p) {
  return {shape, [p](const Shape& s) { return lt(rand(s), p); }};
}

// ---- sets of samples ----

std::vector<Sample> one_input(const Draw& draw) {
  return {{draw({3, 4})}, {draw({})}, {draw({1, 3, 1})}, {draw({2, 0})}};
}

std::vector<Sample> two_inputs(const Draw& first, const Draw& second) {
  return {{first({2, 3}), second({2, 3})}, {first({2, 1, 2}), second({3, 1})},
          {first({}), second({1, 3})},     {first({4}), second({})},
          {first({0, 3}), second({1, 3})}, {first({2, 1}), second({2, 0})}};
}

std::vector<Sample> one_large(const Draw& draw) { return {{draw({71, 1031})}}; }

std::vector<Sample> two_large(const Draw& first, const Draw& second) {
  return {{first({71, 1031}), second({71, 1031})},
          {first({37, 1, 41}), second({29, 1})},
          {first({1031}), second({71, 1})}};
}

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table = [] {
    std::vector<OpRow> all;
    for (auto rows :
         {arithmetic_rows, function_rows, shape_rows, reduction_rows, product_rows, ordering_rows,
          indexing_rows, position_rows, einsum_rows, fused_rows, loss_rows, contrastive_rows,
          attention_rows, recurrent_rows, convolution_rows, vision_rows})
      for (OpRow& row : rows()) all.push_back(std::move(row));
    return all;
  }();
  return table;
}

// ---- the tests ----

namespace {

std::string describe(const OpRow& row) {
  return row.variant.empty() ? row.name : row.name + " (" + row.variant + ")";
}

std::string describe(const Sample& sample) {
  std::ostringstream out;
  for (const Input& input : sample) out << ' ' << input.shape;
  return out.str();
}

/// A text's FNV-1a hash, as a seed: a sample's values do not depend on the preceding rows.
uint64_t number_of(const std::string& text) {
  uint64_t number = 0xcbf29ce484222325;
  for (const char c : text) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return number;
}

enum class Size { small, large };
enum class Rows { all, differentiable, others };

/// Runs a check on each sample of each row.
void on_all(void (*check)(const OpRow&, const Tensors&), Size size, Rows rows) {
  for (const OpRow& row : op_table()) {
    if (rows != Rows::all && row.differentiable != (rows == Rows::differentiable)) continue;
    for (const Sample& sample : size == Size::small ? row.samples : row.large) {
      manual_seed(number_of(describe(row) + describe(sample)));
      try {
        check(row, draw(sample));
        SUCCEED();
      } catch (const std::exception& error) {
        FAIL_CHECK(describe(row) << describe(sample) << ": " << error.what());
      }
    }
  }
}

}  // namespace

TEST_CASE("ops: gradients and gradients of gradients against central differences", "[ops]") {
  on_all(check_gradients, Size::small, Rows::differentiable);
}

TEST_CASE("ops: each op equals its composed form", "[ops]") {
  on_all(check_composed, Size::small, Rows::all);
  on_all(check_composed, Size::large, Rows::all);
}

TEST_CASE("ops: the gradient under create_graph equals the ordinary one", "[ops]") {
  on_all(check_create_graph, Size::small, Rows::differentiable);
  on_all(check_create_graph, Size::large, Rows::differentiable);
}

TEST_CASE("ops: float32 agrees with float64", "[ops]") {
  on_all(check_float32, Size::small, Rows::all);
  on_all(check_float32, Size::large, Rows::all);
}

TEST_CASE("ops: the memory layout of inputs and gradients makes no difference", "[ops][fused]") {
  on_all(check_layouts, Size::small, Rows::all);
  on_all(check_layouts, Size::large, Rows::all);
}

TEST_CASE("ops: a second backward pass doubles the gradients", "[ops]") {
  on_all(check_accumulation, Size::small, Rows::differentiable);
}

TEST_CASE("ops: gradients go only to inputs that require them", "[ops]") {
  on_all(check_wanted, Size::small, Rows::differentiable);
  on_all(check_no_gradient, Size::small, Rows::others);
}

TEST_CASE("ops: every path through the engine gives the same gradients", "[ops][fused]") {
  on_all(check_ways, Size::small, Rows::differentiable);
  on_all(check_ways, Size::large, Rows::differentiable);
}

TEST_CASE("ops: backward throws or is correct after inputs or outputs are overwritten", "[ops]") {
  on_all(check_overwritten, Size::small, Rows::differentiable);
}

TEST_CASE("ops: no memory stays allocated", "[ops]") {
  on_all(check_live_bytes, Size::small, Rows::all);
}

TEST_CASE("ops: the same bits on one thread and on two", "[ops]") {
  on_all(check_threads, Size::small, Rows::all);
  on_all(check_threads, Size::large, Rows::all);
}

TEST_CASE("ops: bad inputs throw messages that say why", "[ops]") {
  for (const OpRow& row : op_table())
    for (const BadCall& bad : row.bad) {
      INFO(describe(row) << ": " << bad.message);
      CHECK_THROWS_WITH(bad.call(), Contains(bad.message));
    }
}

TEST_CASE("ops: each row has samples, one of them empty", "[ops]") {
  for (const OpRow& row : op_table()) {
    INFO(describe(row));
    bool any_empty = false;
    for (const Sample& sample : row.samples)
      for (const Input& input : sample) any_empty = any_empty || input.shape.numel() == 0;
    CHECK(any_empty == row.accepts_empty);
    CHECK(row.samples.size() >= 3);
  }
}

}  // namespace gradus::testing
