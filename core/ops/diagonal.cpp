#include "gradus/core/ops/diagonal.h"

#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

// Neighbours on a diagonal are m + 1 elements apart in a flat (n, m) matrix.
Tensor diagonal(const Tensor& x, int64_t offset, Axis dim1, Axis dim2) {
  const int rows = normalize_dim("diagonal", dim1, x.rank());
  const int columns = normalize_dim("diagonal", dim2, x.rank());
  check(rows != columns, "diagonal: expected two axes, got ", dim1, " and ", dim2, " of ",
        x.shape());
  Shape order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != rows && i != columns) order.push_back(i);
  order.push_back(rows);
  order.push_back(columns);
  const int64_t n = x.size(rows), m = x.size(columns);
  const int64_t right = std::clamp<int64_t>(offset, 0, m),
                down = -std::clamp<int64_t>(offset, -n, 0);
  const int64_t start = down * m + right, length = std::min(n - down, m - right);
  return x.permute(order).flatten(-2).slice(-1, start, start + length * (m + 1), m + 1);
}

Tensor diag(const Tensor& x, int64_t offset) {
  if (x.rank() == 2) return diagonal(x, offset);
  check(x.rank() == 1, "diag: expected a vector or a matrix, got ", x.shape());
  constexpr int64_t most = int64_t{1} << 30;
  check(offset >= -most && offset <= most, "diag: expected an offset from -2^30 to 2^30, got ",
        offset);
  const int64_t n = x.size(0) + std::abs(offset), numel = checked_numel("diag", {n, n});
  const int64_t start = offset < 0 ? -offset * n : offset;
  return pad_slice(x, {numel}, 0, start, n + 1).reshape({n, n});
}

namespace {
/// Returns an (n, m) matrix of j - i - diagonal: how far position (i, j) is to the right of that
/// diagonal. A diagonal outside the matrix counts as the next one beyond its corner.
Tensor right_of_diagonal(const char* op, const Tensor& x, int64_t diagonal) {
  check_shape(op, "x", x, {"...", "n", "m"});
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));
  return arange(x.size(-1)) - arange(x.size(-2)).unsqueeze(1) - static_cast<double>(diagonal);
}
}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) {
  return masked_fill(x, right_of_diagonal("tril", x, diagonal) > 0, 0);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return masked_fill(x, right_of_diagonal("triu", x, diagonal) < 0, 0);
}

}  // namespace gradus
