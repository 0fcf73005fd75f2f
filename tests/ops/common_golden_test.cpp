// Commonly used ops against PyTorch's outputs and gradients; the cases are defined in
// golden/scripts/make_common_golden.py.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/golden/golden.h"
#include "tests/ops/op_checks.h"

namespace gradus::testing::common_golden_test {
using namespace gradus::core;

namespace {

using Cases = std::map<std::string, std::function<Tensor(const Tensors&)>>;

template <class F>
std::function<Tensor(const Tensors&)> on_one(F f) {
  return [f](const Tensors& x) { return f(x[0]); };
}

Cases reduction_cases() {
  return {{"std", on_one([](const Tensor& x) {
             return std_dev(x, {0, 2});
           })},
          {"std_biased", on_one([](const Tensor& x) { return std_dev(x, 1, 0, keepdim); })},
          {"std_of_all", on_one([](const Tensor& x) { return std_dev(x); })},
          {"std_of_equals", on_one([](const Tensor& x) { return std_dev(x, 1); })},
          {"prod", on_one([](const Tensor& x) { return prod(x, 1); })},
          {"prod_keepdim", on_one([](const Tensor& x) { return prod(x, 0, keepdim); })},
          {"prod_of_all", on_one([](const Tensor& x) { return prod(x); })},
          {"prod_zeros", on_one([](const Tensor& x) { return prod(x, 1); })},
          {"prod_zeros_of_all", on_one([](const Tensor& x) { return prod(x); })},
          {"prod_int", on_one([](const Tensor& x) { return prod(x, 1); })},
          {"prod_bool", on_one([](const Tensor& x) { return prod(x, 0); })},
          {"cumsum", on_one([](const Tensor& x) { return cumsum(x, 1); })},
          {"cumsum_last", on_one([](const Tensor& x) { return cumsum(x, -1); })},
          {"cumsum_int", on_one([](const Tensor& x) { return cumsum(x, 0); })},
          {"cumsum_bool", on_one([](const Tensor& x) { return cumsum(x, 2); })},
          {"argmax_of_all", on_one([](const Tensor& x) { return argmax(x); })},
          {"argmin_of_all", on_one([](const Tensor& x) { return argmin(x); })},
          {"argmin", on_one([](const Tensor& x) { return argmin(x, 1); })},
          {"argsort", on_one([](const Tensor& x) { return argsort(x, 1); })},
          {"argsort_descending", on_one([](const Tensor& x) { return argsort(x, 0, true); })},
          {"any", on_one([](const Tensor& x) { return any(x, 1); })},
          {"all", on_one([](const Tensor& x) { return all(x, 2, keepdim); })},
          {"any_of_all", on_one([](const Tensor& x) { return any(x); })},
          {"all_of_all", on_one([](const Tensor& x) { return all(x); })}};
}

Cases shape_cases() {
  return {{"one_hot", on_one([](const Tensor& x) { return one_hot(x + 3); })},
          {"one_hot_more", on_one([](const Tensor& x) { return one_hot(x + 3, 9); })},
          {"flip", on_one([](const Tensor& x) {
             return flip(x, {0, 2});
           })},
          {"roll", on_one([](const Tensor& x) { return roll(x, 1, 1); })},
          {"roll_back", on_one([](const Tensor& x) {
             return roll(x, {-2, 5}, {0, 1});
           })},
          {"roll_flat", on_one([](const Tensor& x) { return roll(x, 5); })},
          {"repeat", on_one([](const Tensor& x) {
             return repeat(x, {2, 1, 3, 2});
           })},
          {"pad", on_one([](const Tensor& x) {
             return pad(x, {1, 2});
           })},
          {"pad_more", on_one([](const Tensor& x) {
             return pad(x, {0, 1, 2, 0, 1, 1}, -2.5);
           })},
          {"unbind", on_one([](const Tensor& x) {
             const Tensors entries = unbind(x, 1);
             return entries[0] * entries[2] + entries[3];
           })}};
}

Cases function_cases() {
  return {{"log1p", on_one(log1p)},
          {"expm1", on_one(expm1)},
          {"rsqrt", on_one(rsqrt)},
          {"floor", on_one(floor)},
          {"ceil", on_one(ceil)},
          {"round", on_one(round)},
          {"leaky_relu", on_one([](const Tensor& x) { return leaky_relu(x, 0.2); })},
          {"leaky_relu_default", on_one([](const Tensor& x) { return leaky_relu(x); })},
          {"elu", on_one([](const Tensor& x) { return elu(x, 1.5); })},
          {"elu_default", on_one([](const Tensor& x) { return elu(x); })},
          {"normalize", on_one([](const Tensor& x) { return normalize(x); })},
          {"normalize_last", on_one([](const Tensor& x) { return normalize(x, -1); })},
          {"normalize_short", on_one([](const Tensor& x) { return normalize(x, 0, 2); })},
          {"normalize_1", on_one([](const Tensor& x) { return normalize(x, 1, 1e-12, 1); })},
          {"normalize_3", on_one([](const Tensor& x) { return normalize(x, 1, 1e-12, 3); })},
          {"normalize_infinity",
           on_one([](const Tensor& x) { return normalize(x, 1, 1e-12, INFINITY); })},
          {"cosine", [](const Tensors& x) { return cosine_similarity(x[0], x[1]); }},
          {"cosine_last", [](const Tensors& x) { return cosine_similarity(x[0], x[1], -1); }},
          {"cosine_at_0", [](const Tensors& x) { return cosine_similarity(x[0], x[1]); }},
          {"cosine_short", [](const Tensors& x) { return cosine_similarity(x[0], x[1], 1, 0.3); }}};
}

Cases einsum_cases() {
  Cases all{{"outer", [](const Tensors& x) { return outer(x[0], x[1]); }},
            {"diagonal", on_one([](const Tensor& x) { return diagonal(x); })},
            {"diagonal_above", on_one([](const Tensor& x) { return diagonal(x, 1, 1, 0); })}};
  const std::map<std::string, std::string> equations{{"matmul", "ij,jk->ik"},
                                                     {"batched", "bij,bjk->bik"},
                                                     {"attention", "bhqd,bhkd->bhqk"},
                                                     {"transpose", "ij->ji"},
                                                     {"diagonal", "ii->i"},
                                                     {"trace", "ii"},
                                                     {"sum", "ij->"},
                                                     {"outer", "i,j"},
                                                     {"dots", "...ij,...jk"},
                                                     {"dots_summed", "...ij,...jk->ik"},
                                                     {"dots_inside", "a...b,b...c->...ac"},
                                                     {"dots_of_none", "ij,...->j"},
                                                     {"bilinear", "bn,anm,bm->ba"},
                                                     {"chain", "ij,jk,kl->il"},
                                                     {"five", "ijk,ilm,njm,nlk,abc->"},
                                                     {"implicit", "bA,Ab,cB"},
                                                     {"size_1", "ij,jk"},
                                                     {"size_1_batch", "bij,bjk->bik"},
                                                     {"repeated", "iij,jkk->ik"},
                                                     {"no_sum", "ij,jk->ijk"},
                                                     {"one_summed", "ij,k->k"},
                                                     {"scalars", ",i->i"},
                                                     {"empty", "ij,jk->ik"},
                                                     {"spaces", " i j , j k -> i k "}};
  for (const auto& [name, equation] : equations)
    all["einsum_" + name] = [equation = equation](const Tensors& x) { return einsum(equation, x); };
  for (int64_t k = -3; k <= 3; ++k)
    all["diag_" + std::to_string(k + 3)] = on_one([k](const Tensor& x) { return diag(x, k); });
  for (int64_t k = -2; k <= 2; ++k)
    all["diag_of_vector_" + std::to_string(k + 2)] =
        on_one([k](const Tensor& x) { return diag(x, k); });
  return all;
}

Cases position_cases() {
  return {
      {"scatter", [](const Tensors& x) { return scatter(x[0], 1, x[1], x[2]); }},
      {"scatter_value", [](const Tensors& x) { return scatter(x[0], 0, x[1], -1.5); }},
      {"nonzero", on_one(nonzero)},
      {"unique", on_one([](const Tensor& x) { return unique(x).values; })},
      {"unique_inverse", on_one([](const Tensor& x) { return unique(x).inverse; })},
      {"unique_counts", on_one([](const Tensor& x) { return unique(x).counts; })},
      {"bincount", on_one([](const Tensor& x) { return bincount(x); })},
      {"bincount_more", on_one([](const Tensor& x) { return bincount(x, {}, 9); })},
      {"bincount_weights", [](const Tensors& x) { return bincount(x[0], x[1]); }},
      {"median", on_one([](const Tensor& x) { return median(x, 1).values; })},
      {"median_index", on_one([](const Tensor& x) { return median(x, 1).indices; })},
      {"median_even", on_one([](const Tensor& x) { return median(x, 0, keepdim).values; })},
      {"median_nan", on_one([](const Tensor& x) { return median(x, 1).values; })},
      {"median_of_all", on_one([](const Tensor& x) { return median(x); })},
      {"quantile", on_one([](const Tensor& x) { return quantile(x, 0.3, 1); })},
      {"quantile_keepdim", on_one([](const Tensor& x) { return quantile(x, 0.9, -1, keepdim); })},
      {"quantile_nan", on_one([](const Tensor& x) { return quantile(x, 0.6, 1); })},
      {"quantile_of_all", on_one([](const Tensor& x) { return quantile(x, 0.25); })}};
}

Cases pair_cases() {
  Cases all{{"atan2", [](const Tensors& x) { return atan2(x[0], x[1]); }},
            {"lerp", [](const Tensors& x) { return lerp(x[0], x[1], x[2]); }},
            {"lerp_number", [](const Tensors& x) { return lerp(x[0], x[1], 0.3); }},
            {"lerp_beyond", [](const Tensors& x) { return lerp(x[0], x[1], -1.5); }},
            {"square", on_one(square)},
            {"tan", on_one(tan)},
            {"cumprod", on_one([](const Tensor& x) { return cumprod(x, 1); })},
            {"cumprod_last", on_one([](const Tensor& x) { return cumprod(x, -1); })},
            {"cumprod_zeros", on_one([](const Tensor& x) { return cumprod(x, 1); })},
            {"cumprod_int", on_one([](const Tensor& x) { return cumprod(x, 1); })},
            {"cumprod_bool", on_one([](const Tensor& x) { return cumprod(x > 0, 0); })}};
  auto close = [](const AllcloseOptions& options) {
    return [options](const Tensors& x) { return full({}, allclose(x[0], x[1], options), boolean); };
  };
  for (const char* name : {"same", "1e_6", "1e_4", "opposite"}) {
    all[std::string("allclose_") + name] = close({});
    all[std::string("allclose_") + name + "_loose"] = close({.rtol = 1e-3, .atol = 0});
  }
  all["allclose_nan"] = close({});
  all["allclose_equal_nan"] = close({.equal_nan = true});
  return all;
}

/// The functions of the *_wide cases.
std::function<Tensor(const Tensors&)> wide_case(const std::string& name) {
  if (name == "std") return on_one([](const Tensor& x) { return std_dev(x, 1); });
  for (const Cases& some : {function_cases(), reduction_cases(), pair_cases()})
    if (const auto found = some.find(name); found != some.end()) return found->second;
  return function_cases().at(name);
}

struct Result {
  Tensor y;
  Tensors gradients;
};

/// Runs f on the case's inputs in `dtype`; a missing gradient counts as 0.
Result result_of(const golden::File& file, const std::string& name,
                 const std::function<Tensor(const Tensors&)>& f, Dtype dtype) {
  Tensors inputs;
  for (int i = 0; file.has(name + ".in." + std::to_string(i)); ++i) {
    inputs.push_back(file.get(name + ".in." + std::to_string(i), dtype).clone());
    if (is_floating(inputs.back().dtype())) inputs.back().requires_grad_();
  }
  const Tensor y = f(inputs);
  Result result{y.detach(), {}};
  if (!file.has(name + ".dy")) return result;
  if (y.requires_grad()) y.backward(file.get(name + ".dy", dtype));
  for (const Tensor& x : inputs)
    result.gradients.push_back(y.requires_grad() ? x.grad() : zeros_like(x).detach());
  return result;
}

/// Checks that each element is within `tolerance` of the expected one, in a matrix relative to its
/// row's maximum. Values beyond float32's range are infinite; those near its smallest may be 0.
void check_each(const Tensor& got, const Tensor& expected, double tolerance) {
  REQUIRE(got.shape() == expected.shape());
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  const Tensor size = abs(expected), scale = size.rank() == 2 ? max(size, 1, keepdim).values : size;
  const auto scales = scale.expand(size.shape()).to_vector<double>();
  constexpr double least = 16 * double{std::numeric_limits<float>::min()};
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("element " << i << ": " << a[i] << ", expected " << b[i]);
    const bool same = a[i] == static_cast<float>(b[i]) || (std::isnan(a[i]) && std::isnan(b[i]));
    CHECK((same || std::abs(a[i] - b[i]) <= std::max(tolerance * scales[i], least)));
  }
}

}  // namespace

TEST_CASE("common ops: PyTorch's outputs and gradients", "[ops][golden]") {
  const golden::File file("common_ops");
  std::set<std::string> tried;
  for (const Cases& some : {reduction_cases(), shape_cases(), function_cases(), einsum_cases(),
                            position_cases(), pair_cases()})
    for (const auto& [name, f] : some) {
      INFO(name);
      tried.insert(name);
      const Result result = result_of(file, name, f, float64);
      CHECK(relative_distance(result.y, file.get(name + ".out")) < 1e-9);
      for (size_t i = 0; i < result.gradients.size(); ++i) {
        const std::string key = name + ".grad." + std::to_string(i);
        REQUIRE(result.gradients[i].defined() == file.has(key));
        if (file.has(key)) CHECK(relative_distance(result.gradients[i], file.get(key)) < 1e-9);
      }
    }
  for (const auto& [key, tensor] : file.with_prefix(""))
    if (key.ends_with(".out") && !key.ends_with("_wide.out"))
      CHECK(tried.contains(key.substr(0, key.size() - 4)));
}

TEST_CASE("common ops: float32 values of every magnitude", "[ops][golden]") {
  const golden::File file("common_ops");
  int cases = 0;
  for (const auto& [key, out] : file.with_prefix("")) {
    if (!key.ends_with("_wide.out")) continue;
    const std::string name = key.substr(0, key.size() - 4);
    INFO(name);
    const auto f = wide_case(name.substr(0, name.size() - 5));
    const Result result = result_of(file, name, f, float32);
    check_each(result.y, out, 3e-7);
    for (size_t i = 0; i < result.gradients.size(); ++i) {
      INFO("gradient " << i);
      check_each(result.gradients[i], file.get(name + ".grad." + std::to_string(i)), 1e-5);
    }
    ++cases;
  }
  CHECK(cases == 17);
}

}  // namespace gradus::testing::common_golden_test
