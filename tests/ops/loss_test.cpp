// Cross entropy, mean squared error and binary cross entropy.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace loss_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

const Tensor x34 = tensor({{0.5, -1.25, 2, 0}, {-0.75, 3, 1.5, -2}, {1, 1, -1, 0.25}}, float64);
const Tensor class_weights4 = tensor({0.5, 2, 1.5, 1}, float64);
const std::vector<Reduction> reductions = {Reduction::mean, Reduction::sum, Reduction::none};

Tensor indices(const std::vector<int64_t>& values) {
  return from_data(values, {static_cast<int64_t>(values.size())});
}

/// Cross entropy by its definition, from softmax and one-hot targets.
Tensor composed_cross_entropy(const Tensor& logits, const Tensor& targets,
                              const CrossEntropyOptions& o) {
  const int64_t classes = logits.shape().back();
  const Tensor ignored = eq(targets, static_cast<double>(o.ignore_index));
  const Tensor t = masked_fill(targets, ignored, 0);
  const Tensor hot = eq(t.unsqueeze(-1), arange(classes)).to(logits.dtype());
  const Tensor w = o.class_weights.defined() ? o.class_weights : ones({classes}, logits.dtype());
  const double e = o.label_smoothing;
  const Tensor target = hot * (1 - e) + e / static_cast<double>(classes);
  const Tensor log_p = logits - logsumexp(logits, -1, keepdim);
  const Tensor losses = masked_fill(-sum(log_p * target * w, -1), ignored, 0);
  if (o.reduction == Reduction::none) return losses;
  if (o.reduction == Reduction::sum) return sum(losses);
  return sum(losses) / sum(masked_fill(sum(hot * w, -1), ignored, 0));
}

void check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
  CHECKED_ELSE(first.ok) FAIL(first.message);
  CHECKED_ELSE(second.ok) FAIL(second.message);
}

struct Expected {
  double smoothing;
  bool weighted;
  double mean, sum;
  std::vector<double> losses, dx;  // dx: the gradient of the mean loss
};

/// PyTorch's values for x34 and the classes 2, 1 and ignored.
const std::vector<Expected> with_indices{
    {0,
     false,
     0.280173592225791,
     0.560347184451582,
     {0.33449861260366254, 0.22584857184791948, 0.0},
     {0.07984677501605413, 0.013875288966340205, -0.14215158110880782, 0.048429517126413524,
      0.009381686333722718, -0.10108054610490802, 0.08901096163393604, 0.0026878981372492486, 0, 0,
      0, 0}},
    {0.1,
     false,
     0.492673592225791,
     0.985347184451582,
     {0.5032486126036626, 0.4820985718479195, 0.0},
     {0.06734677501605413, 0.0013752889663402046, -0.10465158110880785, 0.03592951712641353,
      -0.0031183136662772826, -0.06358054610490804, 0.07651096163393604, -0.009812101862750753, 0,
      0, 0, 0}},
    {0,
     true,
     0.27241287502895223,
     0.9534450626013329,
     {0.5017479189054939, 0.45169714369583897, 0.0},
     {0.06844009287090354, 0.011893104828291604, -0.12184421237897813, 0.04151101467978302,
      0.01072192723854025, -0.11552062411989487, 0.1017268132959269, 0.0030718835854277125, 0, 0, 0,
      0}},
    {0.1,
     true,
     0.3964339869707564,
     1.3875189543976474,
     {0.7246354535904023, 0.662883500807245, 0.0},
     {0.06372799608495991, -0.002590827871227541, -0.09481347550599521, 0.033676307292262835,
      0.006748426395666417, -0.08976002928682746, 0.08719777208304393, -0.0041861691918829705, 0, 0,
      0, 0}}};

}  // namespace

TEST_CASE("cross_entropy: PyTorch's values for class indices") {
  const Tensor targets = indices({2, 1, -100});
  for (const Expected& e : with_indices) {
    for (Dtype dtype : {float32, float64}) {
      const double within = dtype == float64 ? 1e-12 : 1e-6;
      CrossEntropyOptions options{.label_smoothing = e.smoothing};
      if (e.weighted) options.class_weights = class_weights4.to(dtype);
      const Tensor x = x34.to(dtype).clone().requires_grad_();
      options.reduction = Reduction::none;
      CHECK(difference(cross_entropy(x, targets, options), e.losses) < within);
      options.reduction = Reduction::sum;
      CHECK(cross_entropy(x, targets, options).item() == Approx(e.sum).epsilon(within));
      options.reduction = Reduction::mean;
      const Tensor loss = cross_entropy(x, targets, options);
      CHECK(loss.item() == Approx(e.mean).epsilon(within));
      loss.backward();
      CHECK(difference(x.grad(), e.dx) < within);
    }
  }
}

TEST_CASE("cross_entropy: PyTorch's values for probabilities") {
  const Tensor targets =
      tensor({{0.1, 0.2, 0.3, 0.4}, {0.7, 0.1, 0.1, 0.1}, {0, 0, 1, 0}}, float64);
  for (const Expected& e : std::vector<Expected>{
           {0,
            false,
            2.797938831761499,
            0,
            {},
            {0.019897850010702756, -0.057416474022439865, 0.13856561259412814, -0.10104698858239097,
             -0.22707887577751817, 0.23261296926339464, 0.02600730775595736, -0.031541401241833834,
             0.12782647491919513, 0.12782647491919513, -0.3160339011450063, 0.060380951306615985}},
           {0.1,
            true,
            3.0273783266705956,
            0,
            {},
            {0.04976771576386006, -0.12468766719239295, 0.1614424683093959, -0.08652251688086302,
             -0.10388165003200286, 0.1480579590275685, -0.0073571582795493706, -0.03681915071601626,
             0.18437738383914618, 0.17187738383914616, -0.43698333752221763,
             0.08072856984392526}}}) {
    CrossEntropyOptions options{.label_smoothing = e.smoothing};
    if (e.weighted) options.class_weights = class_weights4;
    const Tensor x = x34.clone().requires_grad_();
    const Tensor loss = cross_entropy(x, targets, options);
    loss.backward();
    CHECK(loss.item() == Approx(e.mean).epsilon(1e-12));
    CHECK(difference(x.grad(), e.dx) < 1e-12);
  }
  // One-hot probabilities give the same as class indices.
  const Tensor x = randn({6, 5}, float64), t = randint(0, 5, {6});
  const Tensor hot = eq(t.unsqueeze(-1), arange(5)).to(float64);
  CHECK(difference(cross_entropy(x, hot), cross_entropy(x, t)) < 1e-14);
}

TEST_CASE("cross_entropy: equals its composed form for all options, shapes and strides") {
  manual_seed(1);
  for (const Shape& shape :
       std::vector<Shape>{{5}, {1, 1}, {7, 3}, {2, 3, 65}, {40, 33}, {2, 5000}, {900, 10}, {0, 4}})
    for (Reduction reduction : reductions)
      for (double smoothing : {0.0, 0.2})
        for (bool weighted : {false, true})
          for (int64_t ignore : {-100, 1})
            for (Dtype dtype : {float32, float64}) {
              INFO(shape << " smoothing " << smoothing << " weights " << weighted << " ignore "
                         << ignore << " " << dtype);
              const int64_t classes = shape.back();
              Shape rows = shape;
              rows.pop_back();
              if (rows.numel() == 0 && reduction == Reduction::mean) continue;  // NaN, see below
              const Tensor x = randn(shape, dtype) * 2.0, t = randint(0, classes, rows);
              if (rows.numel() > 2 && ignore < 0) t.reshape({-1}).slice(0, 0, 1).fill_(-100);
              if (rows.numel() > 2 && ignore >= 0) t.reshape({-1}).slice(0, 0, 1).fill_(0);
              const CrossEntropyOptions options{reduction, ignore, smoothing,
                                                weighted ? rand({classes}, dtype) + 0.5 : Tensor()};
              const auto fused = [&](auto in) { return cross_entropy(in[0], t, options); };
              const auto composed = [&](auto in) {
                return composed_cross_entropy(in[0], t, options);
              };
              CHECK(difference(fused, composed, {x}) < tolerance(dtype));
              if (shape.size() < 2) continue;
              const Tensor other = x.transpose(0, -1).contiguous().transpose(0, -1);
              CHECK(difference(fused, composed, {other}) < tolerance(dtype));
            }
}

TEST_CASE("cross_entropy: gradients and gradients of gradients") {
  manual_seed(2);
  const Tensor x = randn({2, 3, 4}, float64).requires_grad_();
  const Tensor t = from_data(std::vector<int64_t>{0, 3, -100, 2, 1, 1}, {2, 3});
  const Tensor p = softmax(randn({2, 3, 4}, float64)).requires_grad_();
  for (Reduction reduction : reductions)
    for (double smoothing : {0.0, 0.1})
      for (bool weighted : {false, true}) {
        const CrossEntropyOptions options{reduction, -100, smoothing,
                                          weighted ? class_weights4 : Tensor()};
        check_gradients(
            [&](auto in) { return std::vector<Tensor>{cross_entropy(in[0], t, options)}; }, {x});
        check_gradients(
            [&](auto in) { return std::vector<Tensor>{cross_entropy(in[0], in[1], options)}; },
            {x, p});
      }
}

TEST_CASE("cross_entropy: the gradient overwrites logits without another owner", "[fused]") {
  manual_seed(3);
  const int64_t rows = 64, classes = 5000;
  const Tensor h = randn({rows, 8}).requires_grad_(), w = randn({classes, 8}).requires_grad_();
  const Tensor t = randint(0, classes, {rows});
  Tensor loss = cross_entropy(linear(h, w), t);  // only the graph holds the logits
  reset_peak_memory();
  const int64_t live = memory_stats().live, logits_bytes = rows * classes * 4;
  loss.backward();
  CHECK(memory_stats().peak - live < logits_bytes * 3 / 4);  // dw is an eighth of the logits' size
  const Tensor dw = w.grad(), dh = h.grad();
  w.set_grad({});
  h.set_grad({});
  const Tensor logits = linear(h, w), copy = logits.detach().clone();
  loss = cross_entropy(logits, t);
  loss.backward({}, true);
  loss.backward();
  CHECK(difference(logits, copy) == 0);
  CHECK(difference(w.grad(), dw * 2.0) < 1e-6);
  CHECK(difference(h.grad(), dh * 2.0) < 1e-6);
  // If the logits are a view, its base must have no other owner either.
  const Tensor base = linear(h, w);
  cross_entropy(base.reshape({2, rows / 2, classes}), t.reshape({2, rows / 2})).backward();
  CHECK(difference(base, copy) == 0);
}

TEST_CASE("cross_entropy: all targets ignored, infinities and large values") {
  const Tensor x = x34.clone().requires_grad_(), ignored = full({3}, -100, int64);
  const Tensor mean = cross_entropy(x, ignored);
  CHECK(std::isnan(mean.item()));  // 0 / 0, as in PyTorch
  mean.backward();
  CHECK(difference(x.grad(), zeros({3, 4}, float64)) == 0);
  CHECK(cross_entropy(x, ignored, {.reduction = Reduction::sum}).item() == 0);
  CHECK(std::isnan(cross_entropy(ones({0, 4}), full({0}, 1, int64)).item()));
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor far = tensor({{1000, -1000}, {-inf, 3}});
  CHECK(difference(cross_entropy(far, indices({0, 1}), {.reduction = Reduction::none}), {0, 0}) ==
        0);
  CHECK(difference(cross_entropy(far, indices({1, 0}), {.reduction = Reduction::none}),
                   {2000, inf}) == 0);
  CHECK(std::isnan(cross_entropy(tensor({{1, std::nan("")}}), indices({0})).item()));
  CHECK(cross_entropy(tensor({1, 1}), scalar(1, int64)).item() == Approx(std::log(2)));
}

TEST_CASE("cross_entropy: errors") {
  const auto refused = [](const Tensor& x, const Tensor& t, const CrossEntropyOptions& o = {}) {
    return error_of([&] { cross_entropy(x, t, o); });
  };
  const Tensor t = full({2, 5}, 3, int64);
  CHECK(refused(ones({12, 65}), indices({1, 2, 3, 4, 5, 70, 7, 8, 9, 10, 11, 12})) ==
        "cross_entropy: target 70 at position 5 is outside [0, 65)");
  CHECK(refused(ones({1, 3}), indices({-1})) ==
        "cross_entropy: target -1 at position 0 is outside [0, 3)");
  CHECK(refused(ones({2, 6, 7}), t) ==
        "cross_entropy: expected targets of int64 (2, 6) or float32 (2, 6, 7), got int64 (2, 5)");
  CHECK(refused(ones({2, 7}), ones({2, 7}, float64)) ==
        "cross_entropy: expected targets of int64 (2,) or float32 (2, 7), got float64 (2, 7)");
  CHECK(refused(ones({2, 7}, int64), indices({1, 1})) ==
        "cross_entropy: expected float32 or float64, got int64");
  CHECK(refused(scalar(1), scalar(1, int64)) == "cross_entropy: expected logits (..., C), got ()");
  CHECK(refused(ones({2, 5, 7}), t, {.label_smoothing = 1.5}) ==
        "cross_entropy: expected label smoothing from 0 to 1, got 1.5");
  CHECK(refused(ones({2, 5, 7}), t, {.class_weights = ones({6})}) ==
        "cross_entropy: expected class weights of float32 (7,), got float32 (6,)");
  CHECK(refused(ones({2, 5, 7}), t, {.class_weights = ones({7}).requires_grad_()}) ==
        "cross_entropy: class weights cannot require grad; detach them");
}

// ---- mean squared error, binary cross entropy ----

TEST_CASE("mse_loss and binary_cross_entropy_with_logits: PyTorch's values") {
  const Tensor target =
      tensor({{0.2, 0.9, 0, 1}, {0.5, 0.3, 1, 0}, {0.1, 0.6, 0.25, 0.75}}, float64);
  const Tensor x = x34.clone().requires_grad_();
  CHECK(mse_loss(x, target).item() == Approx(2.133125));
  CHECK(mse_loss(x, target, {.reduction = Reduction::sum}).item() == Approx(25.5975));
  CHECK(difference(mse_loss(x, target, {.reduction = Reduction::none}),
                   {0.09, 4.6225, 4, 1, 1.5625, 7.29, 0.25, 4, 0.81, 0.16, 1.5625, 0.25}) < 1e-14);
  const auto bce = [](const Tensor& x, const Tensor& t, const BCEWithLogitsOptions& options = {}) {
    return binary_cross_entropy_with_logits(x, t, options);
  };
  CHECK(bce(x, target).item() == Approx(0.9531754488563564));
  CHECK(bce(x, target, {.reduction = Reduction::sum}).item() == Approx(11.438105386276277));
  CHECK(difference(bce(x, target, {.reduction = Reduction::none}),
                   {0.8740769841801067, 1.376929081345373, 2.1269280110429727, 0.6931471805599453,
                    0.7618710061149, 2.1485873515737417, 0.20141327798275246, 0.1269280110429726,
                    1.213261687518223, 0.7132616875182229, 0.5632616875182228,
                    0.6384394198788437}) < 1e-14);
  bce(x, target).backward();
  CHECK(difference(x.grad(), {0.03520494426682121, -0.05644165509789093, 0.07339975649815686,
                              -0.041666666666666664, -0.014931558264616082, 0.054381177235202784,
                              -0.015202126983863029, 0.009933576835176462, 0.05258821488583374,
                              0.010921548219167077, 0.0015784517808329253, -0.01565195825951683}) <
        1e-14);
  CHECK(
      difference(bce(tensor({1000, -1000, 0}), tensor({0, 1, 0.5}), {.reduction = Reduction::none}),
                 {1000, 1000, 0.6931471805599453}) < 1e-7);
}

TEST_CASE("binary_cross_entropy_with_logits: infinite logits, and gradients there") {
  for (const Dtype dtype : {float32, float64}) {
    const double inf = INFINITY;
    const Tensor x = tensor({inf, inf, inf, -inf, -inf, -inf, NAN}, dtype).requires_grad_();
    const Tensor t = tensor({0, 1, 0.5, 0, 1, 0.5, 1}, dtype);
    const Tensor losses = binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::none});
    const std::vector<double> found = losses.to_vector<double>();
    CHECK(std::vector(found.begin(), found.end() - 1) ==
          std::vector<double>{inf, 0, inf, 0, inf, inf});
    CHECK(std::isnan(found.back()));
    losses.slice(0, 0, 6).sum().backward();
    CHECK(difference(x.grad().slice(0, 0, 6), {1, 0, 0.5, 0, -1, -0.5}) == 0);
    // A certain answer's loss is e^-|x|, not the difference of two large numbers.
    const Tensor certain = binary_cross_entropy_with_logits(
        tensor({30, -30}, dtype), tensor({1, 0}, dtype), {.reduction = Reduction::none});
    CHECK(difference(certain * std::exp(30), {1, 1}) < 1e-6);
  }
}

TEST_CASE("cross_entropy: the mean over targets of weight 0 is NaN, as PyTorch's") {
  for (const double smoothing : {0.0, 0.1}) {
    const Tensor logits = tensor({{1, 2, 3}, {3, 0, 1}}), targets = tensor({0, 1}, int64);
    CrossEntropyOptions options{.label_smoothing = smoothing, .class_weights = tensor({0, 0, 1})};
    CHECK(std::isnan(cross_entropy(logits, targets, options).item()));
    options.reduction = Reduction::sum;
    CHECK(std::isfinite(cross_entropy(logits, targets, options).item()));
  }
}

TEST_CASE("cross_entropy: a smoothing of 1 weighs all classes equally, whatever the target") {
  const Tensor expected = -mean(log_softmax(x34), -1);
  for (const Tensor& t : {indices({2, 1, 0}), indices({0, 3, 3})})
    CHECK(difference(cross_entropy(x34, t, {.reduction = Reduction::none, .label_smoothing = 1}),
                     expected) < 1e-14);
  CHECK(difference(cross_entropy(x34, zeros({3, 4}, float64),
                                 {.reduction = Reduction::none, .label_smoothing = 1}),
                   expected) < 1e-14);
}

TEST_CASE("binary_cross_entropy_with_logits: positive weights with infinite logits") {
  const double inf = INFINITY;
  const Tensor x = tensor({inf, inf, -inf, -inf, 0}), t = tensor({1, 0, 0, 1, 1});
  const Tensor losses = binary_cross_entropy_with_logits(
      x, t, {.reduction = Reduction::none, .positive_weights = full({5}, 2)});
  CHECK(difference(losses, {0, inf, 0, inf, 2 * std::log(2)}) < 1e-6);
}

TEST_CASE("binary_cross_entropy: PyTorch's values, also where a logarithm is infinite") {
  const Tensor p = tensor({0, 1, 0.25, 1, 0, 0.9}, float64).requires_grad_();
  const Tensor t = tensor({0, 1, 0.5, 0, 1, 0.125}, float64);
  const Tensor losses = binary_cross_entropy(p, t, {.reduction = Reduction::none});
  CHECK(difference(losses, {0, 0, 0.8369882167858358, 100, 100, 2.027932020827018}) < 1e-14);
  sum(losses).backward();
  CHECK(difference(p.grad() * 1e-12, {0, 0, -1.3333333333333333e-12, 1, -1, 8.611111111111e-12}) <
        1e-8);
  CHECK(p.grad()[2].item() == Approx(-4.0 / 3));
}

TEST_CASE("binary_cross_entropy: the targets' gradient has a finite gradient at 0 and 1") {
  for (const Dtype dtype : {float32, float64}) {
    const Tensor p = tensor({0, 0.5, 1}, dtype).requires_grad_();
    const Tensor t = full({3}, 0.5, dtype).requires_grad_();
    const Tensor loss = binary_cross_entropy(p, t, {.reduction = Reduction::sum});
    const Tensor dt = grad({loss}, {t}, {.create_graph = true})[0];
    CHECK(difference(dt, {100, 0, -100}) == 0);
    // d(log(1 - p) - log p), where a bounded logarithm is constant
    CHECK(difference(grad({sum(dt)}, {p})[0], {-1, -4, -1}) < 1e-6);
  }
}

TEST_CASE("mse_loss and binary_cross_entropy_with_logits: gradients and errors") {
  manual_seed(4);
  const Tensor x = randn({3, 4}, float64).requires_grad_(),
               t = rand({3, 4}, float64).requires_grad_();
  for (Reduction reduction : reductions) {
    check_gradients(
        [&](auto in) {
          return std::vector<Tensor>{mse_loss(in[0], in[1], {.reduction = reduction})};
        },
        {x, t});
    check_gradients(
        [&](auto in) {
          return std::vector<Tensor>{
              binary_cross_entropy_with_logits(in[0], in[1], {.reduction = reduction})};
        },
        {x, t});
  }
  CHECK(error_of([] {
          mse_loss(ones({2, 3}), ones({3}));
        }) == "mse_loss: expected a target of float32 (2, 3), got float32 (3,)");
  CHECK(error_of([] { binary_cross_entropy_with_logits(ones({2}), ones({2}, float64)); }) ==
        "binary_cross_entropy_with_logits: expected targets of float32 (2,), got float64 (2,)");
  CHECK(error_of([] { mse_loss(ones({2}, int64), ones({2}, int64)); }) ==
        "mse_loss: expected float32 or float64, got int64");
}

}  // namespace loss_test
