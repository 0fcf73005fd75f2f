// Products, normalisation and losses.

#include <map>

#include "tests/random_programs/ops.h"

namespace gradus::programs {

namespace {

/// An equation of einsum, as an option, and tensors for it.
void einsum_operands(Picker& p) {
  const int64_t n = p.random.whole(0, einsum_count - 1);
  p.option(n);
  std::map<char, int64_t> sizes;
  const std::string equation = einsum_equation(n);
  Shape shape;
  for (const char c : equation.substr(0, equation.find('-')) + ',')
    if (c == ',') {
      p.like(shape);
      shape = {};
    } else {
      const int64_t size = sizes.try_emplace(c, p.size()).first->second;
      shape.push_back(size);
    }
}

int64_t activation_option(Picker& p) { return p.random.whole(0, 8); }

void product(Picker& p) {
  Shape s = p.any(1, 4);
  const int64_t k = s[-1];
  if (p.random.chance(0.2)) return p.like({k});
  Shape other{k, p.size()};
  if (s.size() > 2 && p.random.chance(0.5)) other.insert(0, p.random.chance(0.5) ? 1 : s[-3]);
  p.like(other);
}

void layer(Picker& p) {
  const Shape s = p.any(1, 3);
  const int64_t out = p.size();
  p.like({out, s[-1]});
  p.option(p.random.chance(0.5) ? 0 : activation_option(p));
  if (p.random.chance(0.6)) p.like({out});
}

void two_layers(Picker& p) {
  const Shape s = p.any(2, 3);
  const int64_t hidden = p.size(), out = p.size();
  p.like({hidden, s[-1]}), p.like({hidden}), p.like({out, hidden}), p.like({out});
  p.option(activation_option(p));
}

void scale_and_shift(Picker& p, int64_t n, int count) {
  if (p.random.chance(0.7))
    for (int k = 0; k < count; ++k) p.like({n});
}

/// Whether the axis is long enough to be normalised without rounding alone deciding.
double spread(const Tensor& x) { return x.numel() == 0 ? 1 : least(var(x, -1, 0)); }

void classes(Picker& p) {
  const Shape s = p.any(2, 2);
  if (s[0] == 0 || s[1] == 0)
    p.failed = true;
  else
    p.indices({s[0]}, s[1]), p.option(p.random.whole(0, 2)), p.real(0, 0.5);
}

void pair_of(Picker& p, Domain domain) {
  const Shape s = p.any(1, 3);
  p.like(s, domain);
  p.option(p.random.whole(0, 2));
}

void rows(Picker& p) {
  const Shape s = p.any(2, 2);
  if (s[0] < 2 || s[1] < 2)
    p.failed = true;
  else
    p.like(s);
}

/// The length of the shortest row: cosines are not smooth at 0.
double shortest(const Tensor& x) { return least(norm(x, -1)) - 0.2; }

}  // namespace

std::vector<Op> product_ops() {
  return {
      {.name = "matmul", GRADUS_CALL(matmul(x[0], x[1])), .propose = product},
      {.name = "linear",
       GRADUS_CALL(linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), activation(i[0]))),
       .propose = layer,
       GRADUS_MARGIN(distance_from(linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor()), 0))},
      {.name = "einsum", GRADUS_CALL(einsum(einsum_equation(i[0]), x)), .propose = einsum_operands},
      {.name = "outer",
       GRADUS_CALL(outer(x[0], x[1])),
       .propose = [](Picker& p) { p.any(1, 1), p.like({p.size()}); }},
      {.name = "tied_linear",
       GRADUS_CALL(linear(tanh(linear(x[0], x[1])), x[1])),
       .propose =
           [](Picker& p) {
             const Shape s = p.any(1, 3);
             p.like({s[-1], s[-1]});
           }},
      {.name = "feed_forward",
       GRADUS_CALL(feed_forward(x[0], x[1], x[2], activation(i[0]), x[3], x[4])),
       .propose = two_layers,
       GRADUS_MARGIN(distance_from(linear(x[0], x[1], x[2]), 0))},
      {.name = "gated",
       GRADUS_CALL(gated(x[0], activation(i[0]))),
       .propose =
           [](Picker& p) {
             p.failed = p.any(1, 3)[-1] % 2 != 0;
             p.option(activation_option(p));
           },
       GRADUS_MARGIN(distance_from(x[0], 0))}};
}

std::vector<Op> norm_ops() {
  return {
      {.name = "layer_norm",
       GRADUS_CALL(x.size() > 1 ? layer_norm(x[0], x[1], x[2]) : layer_norm(x[0])),
       .propose = [](Picker& p) { scale_and_shift(p, p.any(1)[-1], 2); },
       GRADUS_MARGIN(spread(x[0]))},
      {.name = "rms_norm",
       GRADUS_CALL(x.size() > 1 ? rms_norm(x[0], x[1]) : rms_norm(x[0])),
       .propose = [](Picker& p) { scale_and_shift(p, p.any(1)[-1], 1); },
       GRADUS_MARGIN(shortest(x[0]))},
      {.name = "batch_norm",
       GRADUS_CALL((x.size() > 1 ? batch_norm(x[0], x[1], x[2]) : batch_norm(x[0])).y),
       .propose = [](Picker& p) { scale_and_shift(p, p.any(2, 3)[1], 2); },
       GRADUS_MARGIN(spread(x[0].transpose(0, 1).flatten(1)))},
      {.name = "batch_norm_by",
       GRADUS_CALL(batch_norm_by(x[1], x[2], x[0], x[3], x[4])),
       .propose =
           [](Picker& p) {
             const int64_t c = p.any(2, 3)[1];
             p.like({c}), p.like({c}, Domain::positive), p.like({c}), p.like({c});
           },
       GRADUS_MARGIN(least(x[2]) - 0.05)},
      {.name = "group_norm",
       GRADUS_CALL(x.size() > 1 ? group_norm(x[0], i[0], x[1], x[2]) : group_norm(x[0], i[0])),
       .propose =
           [](Picker& p) {
             const int64_t c = p.any(2, 4)[1];
             p.option(c % 2 == 0 && c > 0 ? 2 : 1);
             scale_and_shift(p, c, 2);
           },
       GRADUS_MARGIN(x[0].numel() == 0 ? 1 : spread(x[0].reshape({x[0].size(0), i[0], -1})))},
      {.name = "normalize",
       GRADUS_CALL(normalize(x[0], i[0])),
       .propose = [](Picker& p) { p.axis(p.any(1, 3).size()); },
       GRADUS_MARGIN(shortest(x[0].transpose(i[0], -1)))},
      {.name = "cosine_similarity",
       GRADUS_CALL(cosine_similarity(x[0], x[1], i[0])),
       .propose =
           [](Picker& p) {
             const Shape s = p.any(1, 3);
             p.like(s), p.axis(s.size());
           },
       GRADUS_MARGIN(
           std::min(shortest(x[0].transpose(i[0], -1)), shortest(x[1].transpose(i[0], -1))))},
      {.name = "dropout",
       GRADUS_CALL(dropout(x[0], r[0], key(i[0]))),
       .propose = [](Picker& p) { p.any(), p.real(0, 0.9), p.option(p.random.whole(0, 1000)); }},
      {.name = "dropout_by_mode", GRADUS_CALL(dropout(x[0], r[0])), .propose = [](Picker& p) {
         p.any(), p.real(0, 0.9);
       }}};
}

std::vector<Op> loss_ops() {
  static const Propose pairs = [](Picker& p) { pair_of(p, Domain::any); };
  return {
      {.name = "cross_entropy",
       GRADUS_CALL(
           cross_entropy(x[0], x[1], {.reduction = reduction(i[0]), .label_smoothing = r[0]})),
       .propose = classes},
      {.name = "nll_loss",
       GRADUS_CALL(nll_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = classes},
      {.name = "kl_div",
       GRADUS_CALL(kl_div(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = [](Picker& p) { pair_of(p, Domain::positive); },
       GRADUS_MARGIN(least(x[1]) - 0.05)},
      {.name = "l1_loss",
       GRADUS_CALL(l1_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = pairs,
       GRADUS_MARGIN(distance_between(x[0], x[1]))},
      {.name = "smooth_l1_loss",
       GRADUS_CALL(smooth_l1_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = pairs,
       GRADUS_MARGIN(std::min(distance_from(abs(x[0] - x[1]), 1), distance_between(x[0], x[1])))},
      {.name = "mse_loss",
       GRADUS_CALL(mse_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = pairs},
      {.name = "hinge_loss",
       GRADUS_CALL(hinge_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = [](Picker& p) { p.constant(p.any(1, 2), true), p.option(p.random.whole(0, 2)); },
       GRADUS_MARGIN(distance_from(x[0] * x[1], 1))},
      {.name = "multi_margin_loss",
       GRADUS_CALL(multi_margin_loss(x[0], x[1], {.reduction = reduction(i[0])})),
       .propose = classes,
       GRADUS_MARGIN(distance_from(x[0] + 1.0 - gather(x[0], 1, x[1].unsqueeze(1)), 0))},
      {.name = "binary_cross_entropy",
       GRADUS_CALL(
           binary_cross_entropy(sigmoid(x[0]), sigmoid(x[1]), {.reduction = reduction(i[0])})),
       .propose = pairs,
       GRADUS_MARGIN(6 - least(-abs(x[0])) * -1)},
      {.name = "binary_cross_entropy_with_logits",
       GRADUS_CALL(
           binary_cross_entropy_with_logits(x[0], sigmoid(x[1]), {.reduction = reduction(i[0])})),
       .propose = pairs},
      {.name = "contrastive_cross_entropy",
       GRADUS_CALL(contrastive_cross_entropy(x[0], x[2], x[1], {.temperature = 0.5})),
       .propose =
           [](Picker& p) {
             const Shape s = p.any(2, 2);
             const int64_t keys = p.size();
             if (s[0] == 0 || s[1] == 0)
               p.failed = true;
             else
               p.indices({s[0]}, keys), p.like({keys, s[1]});
           },
       GRADUS_MARGIN(std::min(shortest(x[0]), shortest(x[2])))},
      {.name = "info_nce",
       GRADUS_CALL(info_nce(x[0], x[1], x[2], {.temperature = 0.5})),
       .propose =
           [](Picker& p) {
             rows(p);
             if (!p.failed) p.like({p.size(), p.shape_of(0)[1]});
           },
       GRADUS_MARGIN(std::min(std::min(shortest(x[0]), shortest(x[1])), shortest(x[2])))},
      {.name = "nt_xent",
       GRADUS_CALL(nt_xent(x[0], x[1], {.temperature = 0.5})),
       .propose = rows,
       GRADUS_MARGIN(std::min(shortest(x[0]), shortest(x[1])))},
      {.name = "clip_loss",
       GRADUS_CALL(clip_loss(x[0], x[1], {.temperature = 0.5})),
       .propose = rows,
       GRADUS_MARGIN(std::min(shortest(x[0]), shortest(x[1])))}};
}

}  // namespace gradus::programs
