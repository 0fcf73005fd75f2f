// Images, attention and recurrent networks.

#include "tests/random_programs/ops.h"

namespace gradus::programs {

namespace {

void convolution(Picker& p) {
  const Shape s = p.any(4, 4);
  const int64_t groups = s[1] % 2 == 0 && s[1] > 0 && p.random.chance(0.3) ? 2 : 1;
  const int64_t out = groups * p.random.whole(1, 3);
  const int64_t h = p.random.whole(1, 3), w = p.random.whole(1, 3);
  if (s[1] == 0) p.failed = true;
  p.like({out, s[1] / groups, h, w});
  p.option(p.random.whole(1, 2)), p.option(p.random.whole(0, 2)), p.option(p.random.whole(1, 2));
  p.option(groups);
  if (p.random.chance(0.5)) p.like({out});
}

void sequence_convolution(Picker& p) {
  const Shape s = p.any(3, 3);
  if (s[1] == 0) p.failed = true;
  const int64_t out = p.random.whole(1, 3);
  p.like({out, s[1], p.random.whole(1, 3)});
  p.option(p.random.whole(1, 2)), p.option(p.random.whole(0, 2)), p.option(p.random.whole(1, 2));
  if (p.random.chance(0.5)) p.like({out});
}

void transposed_convolution(Picker& p) {
  const Shape s = p.any(4, 4);
  const int64_t groups = s[1] % 2 == 0 && s[1] > 0 && p.random.chance(0.3) ? 2 : 1;
  const int64_t out = p.random.whole(1, 3), stride = p.random.whole(1, 2);
  if (s[1] == 0) p.failed = true;
  p.like({s[1], out, p.random.whole(1, 3), p.random.whole(1, 3)});
  p.option(stride), p.option(p.random.whole(0, 1)), p.option(p.random.whole(0, stride - 1));
  p.option(groups), p.option(p.random.whole(1, 2));
  if (p.random.chance(0.5)) p.like({groups * out});
}

void pooling(Picker& p, Domain domain) {
  p.any(3, 4, domain);
  const int64_t k = p.random.whole(1, 3);
  p.option(k), p.option(p.random.whole(1, 2)), p.option(p.random.whole(0, k / 2));
}

void resized(Picker& p) {
  p.any(3, 4);
  p.option(p.size()), p.option(p.size()), p.option(p.random.whole(0, 1));
}

void queries_and_keys(Picker& p) {
  const Shape s = p.any(3, 4);
  Shape k = s;
  if (s.numel() == 0) p.failed = true;
  k[-2] = p.size();
  if (s[-3] % 2 == 0 && p.random.chance(0.3)) k[-3] = s[-3] / 2;
  p.like(k);
  p.option(p.random.whole(0, 1));
}

void attended(Picker& p) {
  queries_and_keys(p);
  p.like(p.shape_of(1));
  if (p.random.chance(0.3)) p.mask({p.shape_of(0)[-2], p.shape_of(1)[-2]});
}

/// x_gates, weight, h and, for LSTM, c of `cell`; with a time axis if `steps` is not 0.
void recurrent_step(Picker& p, int64_t cell, int64_t steps) {
  const int64_t batch = p.random.whole(1, 3), hidden = p.random.whole(1, 3);
  const int64_t gates = core::gates_of(static_cast<Recurrence>(cell)) * hidden;
  if (steps > 0)
    p.like({batch, steps, gates});
  else
    p.like({batch, gates});
  p.like({gates, hidden}), p.like({batch, hidden});
  if (static_cast<Recurrence>(cell) == Recurrence::lstm) p.like({batch, hidden});
  p.option(cell);
}

}  // namespace

std::vector<Op> vision_ops() {
  return {{.name = "conv2d",
           GRADUS_CALL(conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(),
                              {.stride = i[0], .padding = i[1], .dilation = i[2], .groups = i[3]})),
           .propose = convolution},
          {.name = "conv1d",
           GRADUS_CALL(conv1d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(),
                              {.stride = i[0], .padding = i[1], .dilation = i[2]})),
           .propose = sequence_convolution},
          {.name = "conv_transpose2d",
           GRADUS_CALL(conv_transpose2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(),
                                        {.stride = i[0],
                                         .padding = i[1],
                                         .output_padding = i[2],
                                         .groups = i[3],
                                         .dilation = i[4]})),
           .propose = transposed_convolution},
          {.name = "max_pool2d",
           GRADUS_CALL(max_pool2d(x[0], i[0], {.stride = i[1], .padding = i[2]})),
           .propose = [](Picker& p) { pooling(p, Domain::distinct); },
           GRADUS_MARGIN(gap(x[0].flatten(), 0))},
          {.name = "avg_pool2d",
           GRADUS_CALL(avg_pool2d(x[0], i[0], {.stride = i[1], .padding = i[2]})),
           .propose = [](Picker& p) { pooling(p, Domain::any); }},
          {.name = "adaptive_avg_pool2d",
           GRADUS_CALL(adaptive_avg_pool2d(x[0], Size2d(i[0], i[1]))),
           .propose = resized},
          {.name = "interpolate",
           GRADUS_CALL(interpolate(x[0], Size2d(i[0], i[1]),
                                   {.mode = Interpolation::bilinear, .align_corners = i[2] != 0})),
           .propose = resized},
          {.name = "interpolate_nearest",
           GRADUS_CALL(interpolate(x[0], Size2d(i[0], i[1]))),
           .propose = resized}};
}

std::vector<Op> sequence_ops() {
  return {{.name = "scaled_dot_product_attention",
           GRADUS_CALL(scaled_dot_product_attention(x[0], x[1], x[2], attention_options(i, x))),
           .propose = attended},
          {.name = "self_attention",
           GRADUS_CALL(self_attention(x[0], i[1], i[1], {.causal = i[0] != 0})),
           .propose =
               [](Picker& p) {
                 const int64_t heads = p.random.whole(1, 2), d = p.random.whole(1, 3);
                 p.like({p.random.whole(1, 2), p.size(), 3 * heads * d});
                 p.option(p.random.whole(0, 1)), p.option(heads);
               }},
          {.name = "attention_weights",
           GRADUS_CALL(attention_weights(x[0], x[1], {.causal = i[0] != 0})),
           .propose = queries_and_keys},
          {.name = "additive_scores",
           GRADUS_CALL(additive_scores(x[0], x[1], x[2])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(3, 3);
                 p.like({s[0], p.size(), s[2]}), p.like({s[2]});
               }},
          {.name = "rotary",
           GRADUS_CALL(rotary(x[0], x[1], i[0])),
           .propose =
               [](Picker& p) {
                 const int64_t t = p.size(), heads = p.random.whole(1, 3),
                               d = 2 * p.random.whole(1, 2);
                 p.like({p.random.whole(1, 2), t, heads, d}), p.constant({t, d});
                 p.option(p.random.whole(0, heads));
               }},
          {.name = "cells",
           GRADUS_CALL(cells(i[0], i[1], x)),
           .propose =
               [](Picker& p) {
                 const int64_t cells[] = {0, 2, 3};
                 recurrent_step(p, cells[p.random.whole(0, 2)], 0);
                 p.option(p.random.whole(1, 4));
               }},
          {.name = "recurrent", GRADUS_CALL(sequence(i, x)), .propose = [](Picker& p) {
             const int64_t cells[] = {0, 2, 3};
             recurrent_step(p, cells[p.random.whole(0, 2)], p.size());
             p.option(p.random.whole(0, 1));
           }}};
}

}  // namespace gradus::programs
