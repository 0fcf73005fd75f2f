// Outputs and gradients at all magnitudes, from 1e-4 to the largest finite number, in both dtypes;
// the cases are defined in golden/scripts/make_magnitude_golden.py.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "gradus/core/core.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/golden/golden.h"

namespace magnitude_golden_test {

using namespace gradus;
using namespace gradus::core;

namespace {

using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

double tolerance(Dtype dtype) { return dtype == float64 ? 1e-9 : 1e-5; }

const golden::File& file() {
  static const golden::File f("magnitudes");
  return f;
}

double largest(const Values& v) {
  double m = 0;
  for (double x : v)
    if (std::isfinite(x)) m = std::max(m, std::abs(x));
  return m;
}

double error(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double e = std::abs(got - expected);
  return std::isfinite(got) && std::isfinite(expected) ? e : inf;
}

// The largest error relative to the largest finite expected number, or to `floor` if that is
// larger. `otherwise` holds alternative expected values, or is empty.
double distance(const Values& got, const Values& expected, double floor,
                const Values& otherwise = {}) {
  if (got.size() != expected.size()) return inf;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double e = error(got[i], expected[i]);
    if (!otherwise.empty()) e = std::min(e, error(got[i], otherwise[i]));
    worst = std::max(worst, e);
  }
  const double scale = std::max(largest(expected), floor);
  return worst == 0 ? 0 : worst / scale;
}

Values numbers(const std::string& key, Dtype dtype) {
  return file().get(key, dtype).to_vector<double>();
}

// The i-th of `rows` equal parts of v.
Values part(const Values& v, size_t rows, size_t i) {
  const size_t n = v.size() / rows;
  if (v.empty()) return {};
  return {v.begin() + static_cast<ptrdiff_t>(i * n), v.begin() + static_cast<ptrdiff_t>(i * n + n)};
}

using Cases = std::map<std::string, std::function<Tensor(const Tensor&)>>;

Cases row_cases(const std::string& group, Dtype dtype) {
  const Tensor t = file().get(group + ".t"), p = file().get(group + ".p", dtype);
  const Tensor w = tensor({0.5, 2, 1, 0.25, 1.5, 1, 0.75, 3}, dtype);
  const auto entropy = [](const Tensor& target, CrossEntropyOptions options) {
    options.reduction = Reduction::none;
    return [=](const Tensor& x) { return cross_entropy(x, target, options); };
  };
  return {{"softmax", [](const Tensor& x) { return softmax(x); }},
          {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
          {"logsumexp", [](const Tensor& x) { return logsumexp(x, -1); }},
          {"cross_entropy", entropy(t, {})},
          {"cross_entropy_smoothing", entropy(t, {.label_smoothing = 0.125})},
          {"cross_entropy_weights", entropy(t, {.label_smoothing = 0.125, .class_weights = w})},
          {"cross_entropy_probabilities", entropy(p, {})},
          {"bce",
           [=](const Tensor& x) {
             return binary_cross_entropy_with_logits(x, p, {.reduction = Reduction::none});
           }},
          {"layer_norm", [](const Tensor& x) { return layer_norm(x); }}};
}

// PyTorch's values where an intermediate result overflows the dtype; empty if none does. float64
// overflows only in its own cases.
Values otherwise(const std::string& key, Dtype dtype) {
  const bool narrow = key.find("_double") == std::string::npos;
  return narrow == (dtype == float32) && file().has(key) ? numbers(key, dtype) : Values{};
}

// True if float32 can hold layer norm's statistics for the i-th row. It cannot hold the mean of
// adjacent numbers beyond 1e5, nor the variance of values spread over more than 1e19.
bool is_within_float32(size_t i, double size) {
  return i % 4 == 2 || size < (i % 4 == 3 ? 1e19 : 2e5);
}

// Compares row by row, so that large rows do not hide errors in small ones.
void compare_rows(const std::string& group, const std::string& name, Dtype dtype) {
  const std::string key = group + '.' + name;
  const Tensor x = file().get(group + ".x", dtype).requires_grad_();
  const auto rows = static_cast<size_t>(x.size(0));
  const Tensor y = row_cases(group, dtype).at(name)(x);
  const Values dy = numbers(key + ".dy", dtype);
  y.backward(from_data(dy, y.shape()).to(dtype));
  const Values given = x.to_vector<double>(), out = y.to_vector<double>();
  const Values dx = x.grad().to_vector<double>();
  const Values want = numbers(key + ".out", dtype), slope = numbers(key + ".dx", dtype);
  const Values or_out = otherwise(key + ".out_pytorch", dtype),
               or_dx = otherwise(key + ".dx_pytorch", dtype);
  for (size_t i = 0; i < rows; ++i) {
    const Values row = part(given, rows, i);
    if (name == "layer_norm" && dtype == float32 && !is_within_float32(i, largest(row))) continue;
    const double floor = name == "layer_norm" ? 0 : largest(part(dy, rows, i));
    INFO(key << " " << dtype << ", row " << i << ": " << row[0] << " " << row[1] << " ...");
    CHECK(distance(part(out, rows, i), part(want, rows, i), 1, part(or_out, rows, i)) <
          tolerance(dtype));
    CHECK(distance(part(dx, rows, i), part(slope, rows, i), floor, part(or_dx, rows, i)) <
          tolerance(dtype));
  }
}

const Cases& points() {
  static const Cases all = {{"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
                            {"softplus", [](const Tensor& x) { return softplus(x); }},
                            {"tanh", [](const Tensor& x) { return tanh(x); }},
                            {"erf", [](const Tensor& x) { return erf(x); }},
                            {"gelu_erf", [](const Tensor& x) { return gelu(x); }},
                            {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }},
                            {"silu", [](const Tensor& x) { return silu(x); }}};
  return all;
}

const Cases& waves() {
  static const Cases all = {{"sin", [](const Tensor& x) { return sin(x); }},
                            {"cos", [](const Tensor& x) { return cos(x); }}};
  return all;
}

// Checks the error of each element, relative to the element or to `floor`.
void compare_points(const std::string& group, const Cases& cases, Dtype dtype, double floor) {
  for (const auto& [name, f] : cases) {
    const Tensor x = file().get(group + ".x", dtype).requires_grad_();
    const Tensor y = f(x);
    y.backward(ones_like(y));
    const Values given = x.to_vector<double>(), out = y.to_vector<double>();
    const Values dx = x.grad().to_vector<double>();
    const Values want = numbers(group + '.' + name + ".out", dtype);
    const Values slope = numbers(group + '.' + name + ".dx", dtype);
    const Values or_dx = otherwise(group + '.' + name + ".dx_pytorch", dtype);
    for (size_t i = 0; i < given.size(); ++i) {
      // At infinity these are 0 * infinity, which may be NaN.
      if (std::isinf(given[i]) && (name == "silu" || name.starts_with("gelu"))) continue;
      INFO(group << '.' << name << ' ' << dtype << " at " << given[i]);
      CHECK(distance({out[i]}, {want[i]}, floor) < tolerance(dtype));
      CHECK(distance({dx[i]}, {slope[i]}, floor, part(or_dx, given.size(), i)) < tolerance(dtype));
    }
  }
}

// ---- attention ----

struct Attention {
  std::string name;
  Dtype dtype;
  Tensor q, k, v, dy;
  AttentionOptions options;
  double factor;  // scale of the scores
  Attention(const std::string& case_name, Dtype type) : name(case_name), dtype(type) {
    q = get("q"), k = get("k"), v = get("v"), dy = get("dy");
    options.causal = name.find(".causal") != std::string::npos;
    if (file().has(name + ".scale")) options.scale = file().get(name + ".scale").item();
    if (file().has(name + ".mask")) options.mask = get("mask");
    factor = options.scale.value_or(0.5);
  }
  Tensor get(const std::string& what) const { return file().get(name + '.' + what, dtype); }
  Tensor truth(const std::string& what) const {
    return get(dtype == float32 && file().has(name + '.' + what + "32") ? what + "32" : what);
  }

  // The large part of a score comes from column 0 of q, so dk's column 0 is compared separately.
  // Gradients are compared relative to the terms of their sums.
  void compare(const char* op, const Tensor& y, const Tensor& dq, const Tensor& dk,
               const Tensor& dv) const {
    const auto off = [](const Tensor& got, const Tensor& expected, double floor) {
      return distance(got.to_vector<double>(), expected.to_vector<double>(), floor);
    };
    const auto size = [](const Tensor& x) { return largest(x.to_vector<double>()); };
    const double limit = tolerance(dtype), term = 0.1 * factor * size(dy);
    INFO(op << ", " << name << " " << dtype);
    CHECK(off(y.detach(), truth("out"), 0) < limit);
    CHECK(off(dq, truth("dq"), term * size(k)) < limit);
    CHECK(off(dv, truth("dv"), 0) < limit);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 4}})
      CHECK(off(dk.slice(-1, begin, end), truth("dk").slice(-1, begin, end),
                term * size(q.slice(-1, begin, end))) < limit);
  }
};

// `mask_gradient` selects the composed form.
void compare_attention(const Attention& a, bool mask_gradient) {
  const Tensor q = a.q.detach().requires_grad_(), k = a.k.detach().requires_grad_();
  const Tensor v = a.v.detach().requires_grad_();
  AttentionOptions options = a.options;
  if (mask_gradient) options.mask = options.mask.detach().requires_grad_();
  const Tensor y = scaled_dot_product_attention(q, k, v, options);
  y.backward(a.dy);
  a.compare(mask_gradient ? "the formula" : "attention", y, q.grad(), k.grad(), v.grad());
}

void compare_self_attention(const Attention& a) {
  // Convert (B, H, T, D) to (B, T, H D) and back.
  const auto side_by_side = [](const Tensor& x) { return x.transpose(1, 2).flatten(2); };
  const auto heads = [](const Tensor& x, int64_t n) {
    return x.reshape({x.size(0), x.size(1), n, x.size(2) / n}).transpose(1, 2);
  };
  const int64_t H = a.q.size(1), Hk = a.k.size(1);
  const Tensor qkv =
      cat({side_by_side(a.q), side_by_side(a.k), side_by_side(a.v)}, 2).detach().requires_grad_();
  const Tensor y = self_attention(qkv, H, Hk, a.options);
  y.backward(side_by_side(a.dy));
  const auto d = qkv.grad().split(Shape{4 * H, 4 * Hk, 4 * Hk}, 2);
  a.compare("self_attention", heads(y.detach(), H), heads(d[0], H), heads(d[1], Hk),
            heads(d[2], Hk));
}

std::vector<std::string> attention_names(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : file().with_prefix(prefix))
    if (key.ends_with(".q")) names.push_back(prefix + key.substr(0, key.size() - 2));
  return names;
}

void compare_all_attention(const std::string& prefix, Dtype dtype) {
  const auto names = attention_names(prefix);
  REQUIRE(!names.empty());
  for (const std::string& name : names) {
    const Attention a(name, dtype);
    compare_attention(a, false);
    if (a.options.mask.defined() && is_floating(a.options.mask.dtype())) compare_attention(a, true);
    if (a.q.size(2) == a.k.size(2)) compare_self_attention(a);
  }
}

}  // namespace

TEST_CASE("magnitudes: softmax, its logarithm, losses, layer norm", "[magnitudes][golden]") {
  for (const char* name :
       {"softmax", "log_softmax", "logsumexp", "cross_entropy", "cross_entropy_smoothing",
        "cross_entropy_weights", "cross_entropy_probabilities", "bce", "layer_norm"})
    DYNAMIC_SECTION(name) {
      compare_rows("rows", name, float32);
      compare_rows("rows", name, float64);
      // The sum of eight of the largest values overflows.
      if (name != std::string("layer_norm")) compare_rows("rows_double", name, float64);
    }
}

TEST_CASE("magnitudes: a constant does not change a loss", "[magnitudes]") {
  for (Dtype dtype : {float32, float64})
    for (double size : {0.0, 1.0, 1e3, 1e6, 1e9, -1e20, 3e38}) {
      CAPTURE(dtype, size);
      const Tensor x = full({1, 7}, size, dtype).requires_grad_();
      const Tensor loss = cross_entropy(x, tensor({3}, int64));
      CHECK(loss.item() == Approx(std::log(7.0)).epsilon(1e-6));
      CHECK(log_softmax(x).to_vector<double>()[2] == Approx(-std::log(7.0)).epsilon(1e-6));
      loss.backward();
      CHECK(x.grad().to_vector<double>()[0] == Approx(1.0 / 7).epsilon(1e-6));
      CHECK(x.grad().to_vector<double>()[3] == Approx(-6.0 / 7).epsilon(1e-6));
    }
}

TEST_CASE("magnitudes: activations", "[magnitudes][golden]") {
  for (Dtype dtype : {float32, float64}) compare_points("points", points(), dtype, 1e-3);
  compare_points("points_double", points(), float64, 1e-3);
}

TEST_CASE("magnitudes: sine and cosine", "[magnitudes][golden]") {
  for (Dtype dtype : {float32, float64}) compare_points("waves", waves(), dtype, 0.1);
  compare_points("waves_double", waves(), float64, 0.1);
}

TEST_CASE("magnitudes: attention with scores of every magnitude", "[magnitudes][golden]") {
  for (Dtype dtype : {float32, float64})
    for (const char* prefix : {"attend.2^", "attend.-2^"}) compare_all_attention(prefix, dtype);
  compare_all_attention("attend_double.", float64);
}

TEST_CASE("magnitudes: attention with masks of every magnitude", "[magnitudes][golden]") {
  for (Dtype dtype : {float32, float64})
    for (const char* prefix : {"attend.mask", "attend.bool"}) compare_all_attention(prefix, dtype);
}

TEST_CASE("magnitudes: gradients at NaN, and of powers of zero", "[magnitudes][golden]") {
  const std::map<std::string, std::function<Tensor(const std::vector<Tensor>&)>> cases = {
      {"clamp", [](auto& x) { return clamp(x[0], -1.5, 1.5); }},
      {"maximum", [](auto& x) { return maximum(x[0], x[1]); }},
      {"minimum", [](auto& x) { return minimum(x[0], x[1]); }},
      {"pow", [](auto& x) { return pow(x[0], x[1]); }},
      {"pow_0", [](auto& x) { return pow(x[0], 0.0); }}};
  for (Dtype dtype : {float32, float64})
    for (const auto& [name, f] : cases) {
      const std::string key = "special." + name;
      std::vector<Tensor> inputs;
      for (int i = 0; file().has(key + ".in." + std::to_string(i)); ++i)
        inputs.push_back(file().get(key + ".in." + std::to_string(i), dtype).requires_grad_());
      const Tensor y = f(inputs);
      const auto compare = [&](const Tensor& got, const std::string& what) {
        const Values a = got.to_vector<double>(), b = numbers(key + what, dtype);
        for (size_t i = 0; i < b.size(); ++i) {
          INFO(key << what << ' ' << dtype << ", element " << i << ": " << a[i] << ", PyTorch "
                   << b[i]);
          CHECK(error(a[i], b[i]) < tolerance(dtype));
        }
      };
      compare(y.detach(), ".out");
      y.backward(file().get(key + ".dy", dtype));
      for (size_t i = 0; i < inputs.size(); ++i)
        compare(inputs[i].grad(), ".grad." + std::to_string(i));
    }
}

TEST_CASE("magnitudes: reductions of empty axes, with their derivatives", "[magnitudes]") {
  for (Dtype dtype : {float32, float64}) {
    const auto compare = [&](const std::function<Tensor(const Tensor&)>& f, double value) {
      const Tensor x = zeros({3, 0}, dtype).requires_grad_();
      const Tensor y = f(x);
      CHECK(y.shape() == Shape{3});
      for (double v : y.to_vector<double>()) CHECK(error(v, value) == 0);
      const Tensor dy = ones_like(y).requires_grad_();
      const Tensor dx = grad({y}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0];
      CHECK(dx.shape() == Shape{3, 0});
      CHECK(dx.dtype() == dtype);
      const auto second = grad({sum(dx * dx)}, {x, dy}, {.allow_unused = true});
      if (second[0].defined()) CHECK(second[0].shape() == Shape{3, 0});
      if (second[1].defined())
        for (double v : second[1].to_vector<double>()) CHECK((v == 0 || std::isnan(v)));
    };
    compare([](const Tensor& x) { return sum(x, -1); }, 0);
    compare([](const Tensor& x) { return mean(x, -1); }, std::nan(""));
    compare([](const Tensor& x) { return var(x, {-1}); }, std::nan(""));
    compare([](const Tensor& x) { return var(x, {-1}, 0); }, std::nan(""));
    compare([](const Tensor& x) { return norm(x, {-1}); }, 0);
  }
}

TEST_CASE("magnitudes: layer norm and variance of constant rows", "[magnitudes]") {
  for (Dtype dtype : {float32, float64})
    for (int64_t n : {1000, 4097, 65'536, 1 << 20, 1 << 22})
      for (double value : {0.1, 1000.1, 1e6}) {
        CAPTURE(dtype, n, value);
        const NoGrad no_grad;
        const Tensor x = full({1, n}, value, dtype);
        CHECK(max(abs(layer_norm(x))).item() < 1e-5);
        CHECK(var(x, {-1}).item() < 1e-12 * value * value);
      }
}

}  // namespace magnitude_golden_test
