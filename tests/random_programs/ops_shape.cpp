// Views, ops that move elements, and ops that read and add by index.

#include "tests/random_programs/ops.h"

namespace gradus::programs {

namespace {

/// Options: the sizes of another shape of as many elements.
void other_shape(Picker& p) {
  const Shape s = p.any();
  const int64_t n = s.numel();
  switch (p.random.whole(0, 3)) {
    case 0:
      p.option(n);
      break;
    case 1:
      p.option(1), p.option(n);
      break;
    case 2:
      if (s.size() > 0 && s[-1] > 0)
        p.option(n / s[-1]), p.option(s[-1]), p.option(1);
      else
        p.option(n);
      break;
    default:
      if (s.size() > 1) {
        p.option(s[0] * s[1]);
        for (int d = 2; d < s.size(); ++d) p.option(s[d]);
      } else if (n % 2 == 0) {
        p.option(2), p.option(n / 2);
      } else {
        p.option(n);
      }
  }
}

void permuted(Picker& p) {
  const int rank = p.any(1).size();
  Ints order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  for (size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1],
              order[static_cast<size_t>(p.random.whole(0, static_cast<int64_t>(k) - 1))]);
  p.step.ints = order;
}

void expanded(Picker& p) {
  const Shape s = p.any(0, 3);
  if (p.random.chance(0.5)) p.option(p.size());
  for (const int64_t n : s) p.option(n == 1 ? p.size() : n);
}

/// An axis of size at least 1, as the first option; returns it.
int64_t full_axis(Picker& p, const Shape& s) {
  const int64_t dim = p.axis(s.size());
  p.failed = p.failed || s[static_cast<int>(dim)] == 0;
  return dim;
}

void splitting(Picker& p) {
  const Shape s = p.any(1);
  const int64_t n = s[static_cast<int>(full_axis(p, s))], first = p.random.whole(0, n);
  p.option(first), p.option(n - first);
}

void joining(Picker& p) {
  Shape s = p.any(1, 3);
  const auto dim = static_cast<int>(p.axis(s.size()));
  for (int64_t more = p.random.whole(0, 2); more > 0; --more) {
    s[dim] = p.size();
    p.like(s);
  }
}

void padding(Picker& p) {
  const Shape s = p.any(1, 3);
  for (int k = 0; k < 2 * p.random.whole(0, s.size()); ++k) p.option(p.random.whole(0, 2));
  p.step.ints.resize(p.step.ints.size() / 2 * 2);
  p.real(-1, 1);
}

void summed_to(Picker& p) {
  const Shape s = p.any(0, 3);
  bool on = p.random.chance(0.5);
  for (const int64_t n : s) {
    if (on) p.option(p.random.chance(0.5) ? 1 : n);
    on = true;
  }
}

}  // namespace

std::vector<Op> shape_ops() {
  return {{.name = "reshape", GRADUS_CALL(x[0].reshape(shape_of(i))), .propose = other_shape},
          {.name = "flatten", GRADUS_CALL(x[0].flatten()), .propose = [](Picker& p) { p.any(1); }},
          {.name = "squeeze", GRADUS_CALL(x[0].squeeze()), .propose = [](Picker& p) { p.any(); }},
          {.name = "unsqueeze",
           GRADUS_CALL(x[0].unsqueeze(i[0])),
           .propose = [](Picker& p) { p.axis(p.any(0, 3).size() + 1); }},
          {.name = "transpose",
           GRADUS_CALL(x[0].transpose(i[0], i[1])),
           .propose =
               [](Picker& p) {
                 const int n = p.any(1).size();
                 p.axis(n), p.axis(n);
               }},
          {.name = "permute", GRADUS_CALL(x[0].permute(shape_of(i))), .propose = permuted},
          {.name = "slice",
           GRADUS_CALL(x[0].slice(i[0], i[1], i[2], i[3])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(1);
                 const int64_t n = s[static_cast<int>(p.axis(s.size()))];
                 p.option(p.random.whole(-n - 1, n)), p.option(p.random.whole(-1, n + 1));
                 p.option(p.random.whole(1, 3));
               }},
          {.name = "select",
           GRADUS_CALL(x[0].select(i[0], i[1])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(1);
                 const int64_t n = s[static_cast<int>(full_axis(p, s))];
                 if (!p.failed) p.option(p.random.whole(-n, n - 1));
               }},
          {.name = "expand", GRADUS_CALL(x[0].expand(shape_of(i))), .propose = expanded},
          {.name = "split", GRADUS_CALL(x[0].split(Shape{i[1], i[2]}, i[0])), .propose = splitting},
          {.name = "chunk",
           GRADUS_CALL(x[0].chunk(i[1], i[0])),
           .propose = [](Picker& p) { full_axis(p, p.any(1)), p.option(p.random.whole(1, 3)); }},
          {.name = "unbind",
           GRADUS_CALL(unbind(x[0], i[0])),
           .propose = [](Picker& p) { full_axis(p, p.any(1)); }},
          {.name = "cat", GRADUS_CALL(cat(x, i[0])), .propose = joining},
          {.name = "stack",
           GRADUS_CALL(stack(x, i[0])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(0, 3);
                 p.like(s), p.axis(s.size() + 1);
               }},
          {.name = "clone", GRADUS_CALL(x[0].clone()), .propose = [](Picker& p) { p.any(); }},
          {.name = "contiguous",
           GRADUS_CALL(x[0].contiguous() * 1.0),
           .propose = [](Picker& p) { p.any(); }},
          {.name = "to",
           GRADUS_CALL(x[0].to(float64).to(x[0].dtype()) * 1.0),
           .propose = [](Picker& p) { p.any(); }},
          {.name = "detach",
           GRADUS_CALL(x[0].detach()),
           .propose = [](Picker& p) { p.any(); },
           .detaches = true},
          {.name = "flip", GRADUS_CALL(flip(x[0], i[0])), .propose = one_axis},
          {.name = "roll",
           GRADUS_CALL(roll(x[0], i[1], i[0])),
           .propose = [](Picker& p) { p.axis(p.any(1).size()), p.option(p.random.whole(-4, 4)); }},
          {.name = "repeat",
           GRADUS_CALL(repeat(x[0], shape_of(i))),
           .propose =
               [](Picker& p) {
                 const int rank = p.any(0, 2).size();
                 for (int d = -static_cast<int>(p.random.whole(0, 1)); d < rank; ++d)
                   p.option(p.random.whole(1, 2));
               }},
          {.name = "pad", GRADUS_CALL(pad(x[0], i, r[0])), .propose = padding},
          {.name = "pad_slice",
           GRADUS_CALL(pad_slice(x[0], shape_of(part(i, 3)), i[0], i[1], i[2])),
           .propose =
               [](Picker& p) {
                 Shape s = p.any(1, 3);
                 const auto dim = static_cast<int>(p.axis(s.size()));
                 const int64_t start = p.random.whole(0, 2), step = p.random.whole(1, 3);
                 if (s[dim] == 0) p.failed = true;
                 s[dim] = start + (s[dim] - 1) * step + 1 + p.random.whole(0, step - 1);
                 p.option(start), p.option(step);
                 for (const int64_t n : s) p.option(n);
               }},
          {.name = "sum_to", GRADUS_CALL(sum_to(x[0], shape_of(i))), .propose = summed_to},
          {.name = "tril",
           GRADUS_CALL(tril(x[0], i[0])),
           .propose = [](Picker& p) { p.any(2), p.option(p.random.whole(-2, 2)); }},
          {.name = "diagonal",
           GRADUS_CALL(diagonal(x[0], i[0], i[1], i[2])),
           .propose =
               [](Picker& p) {
                 p.option(p.random.whole(-2, 2));
                 const int rank = p.any(2).size();
                 const int64_t first = p.random.whole(0, rank - 1);
                 p.option(first), p.option((first + p.random.whole(1, rank - 1)) % rank);
               }},
          {.name = "diag",
           GRADUS_CALL(diag(x[0], i[0])),
           .propose = [](Picker& p) { p.any(1, 2), p.option(p.random.whole(-2, 2)); }},
          {.name = "triu", GRADUS_CALL(triu(x[0], i[0])), .propose = [](Picker& p) {
             p.any(2), p.option(p.random.whole(-2, 2));
           }}};
}

std::vector<Op> index_ops() {
  /// x (any rank), an axis, and a shape that differs along it.
  static const auto along = [](Picker& p) -> Shape {
    Shape s = p.any(1, 3);
    s[static_cast<int>(full_axis(p, s))] = p.size();
    return s;
  };
  static const auto size_along = [](Picker& p) {
    return p.shape_of(0)[static_cast<int>(p.step.ints[0])];
  };
  return {{.name = "gather",
           GRADUS_CALL(gather(x[0], i[0], x[1])),
           .propose =
               [](Picker& p) {
                 const Shape s = along(p);
                 p.indices(s, size_along(p));
               }},
          {.name = "scatter_add",
           GRADUS_CALL(scatter_add(x[0], i[0], x[1], x[2])),
           .propose =
               [](Picker& p) {
                 const Shape s = along(p);
                 p.indices(s, size_along(p)), p.like(s);
               }},
          {.name = "scatter",
           GRADUS_CALL(scatter(x[0], i[0], x[1], x[2])),
           .propose =
               [](Picker& p) {
                 const Shape s = along(p);
                 p.indices(s, size_along(p)), p.like(s);
               }},
          {.name = "bincount",
           GRADUS_CALL(bincount(x[1], x[0], i[0])),
           .propose =
               [](Picker& p) {
                 const int64_t n = p.any(1, 1)[0];
                 p.indices({n}, 5), p.option(p.random.whole(0, 7));
               }},
          {.name = "scatter_sum",
           GRADUS_CALL(scatter_sum(shape_of(part(i, 1)), i[0], x[1], x[0])),
           .propose =
               [](Picker& p) {
                 Shape s = p.any(1, 3);
                 const auto dim = static_cast<int>(p.axis(s.size()));
                 const int64_t n = p.size();
                 p.indices(s, n);
                 for (const int64_t m : s.with(dim, n)) p.option(m);
               }},
          {.name = "index_select",
           GRADUS_CALL(index_select(x[0], i[0], x[1])),
           .propose = [](Picker& p) { along(p), p.indices({p.size()}, size_along(p)); }},
          {.name = "index_add",
           GRADUS_CALL(index_add(x[0], i[0], x[1], x[2])),
           .propose =
               [](Picker& p) {
                 const Shape s = along(p);
                 p.indices({s[static_cast<int>(p.step.ints[0])]}, size_along(p)), p.like(s);
               }},
          {.name = "index_sum",
           GRADUS_CALL(index_sum(shape_of(part(i, 1)), i[0], x[1], x[0])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(1, 3);
                 const auto dim = static_cast<int>(p.axis(s.size()));
                 const int64_t n = p.size();
                 p.indices({s[dim]}, n);
                 for (const int64_t m : s.with(dim, n)) p.option(m);
               }},
          {.name = "embedding",
           GRADUS_CALL(embedding(x[0], x[1])),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(2, 2);
                 if (s[0] == 0)
                   p.failed = true;
                 else
                   p.indices(p.shape(0, 2), s[0]);
               }},
          {.name = "at",
           GRADUS_CALL(x[0][x[1]]),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(1, 3);
                 if (s[0] == 0)
                   p.failed = true;
                 else
                   p.indices(p.shape(0, 1), s[0]);
               }},
          {.name = "one_hot",
           GRADUS_CALL(one_hot(x[0], 4).to(x[1].dtype()) * sum(x[1])),
           .propose = [](Picker& p) { p.indices(p.shape(0, 2), 4), p.any(); }}};
}

}  // namespace gradus::programs
