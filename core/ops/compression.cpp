#include "gradus/core/ops/compression.h"

#include <cstring>

#include "gradus/core/kernels/products/compressed.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus {

namespace {

/// The first byte of a tensor's elements.
template <class T>
T* elements_of(const Tensor& x) {
  const TensorImpl& t = x.impl();
  return reinterpret_cast<T*>(t.storage->data() + t.offset * size_of(t.dtype));
}

/// A compressed tensor as a matrix with rows along the last axis.
kernel::CompressedMatrix matrix_of(const char* op, const Tensor& x) {
  check(x.is_contiguous(), op, ": expected a contiguous ", x.dtype(), " tensor, got strides ",
        x.strides(), " for shape ", x.shape());
  const int64_t cols = x.rank() > 0 ? x.shape().back() : 1;
  const int64_t rows = x.rank() > 0 ? x.shape().without(x.rank() - 1).numel() : 1;
  if (x.dtype() == bfloat16) return {bfloat16, rows, cols, elements_of<void>(x), nullptr};
  const Tensor& scales = x.impl().scales;
  check(scales.defined(), op, ": a view of an int8 matrix has no scales; use the whole matrix");
  return {int8, rows, cols, elements_of<void>(x), elements_of<uint16_t>(scales)};
}

/// Rows per chunk that make a chunk worth a thread's while.
int64_t row_grain(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

Tensor decompress(const Tensor& x) {
  const kernel::CompressedMatrix from = matrix_of("to", x);
  const Tensor y = empty(x.shape());
  float* to = y.data<float>();
  parallel_for(from.rows, row_grain(from.cols), [&](int64_t begin, int64_t end) {
    from.decompress(begin, end, to + begin * from.cols);
  });
  return y;
}

void check_finite(const Tensor& x) {
  const float* p = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    check(std::isfinite(p[i]), "to: int8: expected finite elements, got ", p[i], " at ",
          index_of(x.shape(), i));
}

Tensor compress(const Tensor& given, Dtype dtype) {
  check(given.dtype() == float32, "to: only float32 converts to ", dtype, ", got ", given.dtype());
  const Tensor x = given.detach().contiguous();
  const Tensor y = empty(x.shape(), dtype);
  const float* from = x.data<float>();
  if (dtype == bfloat16) {
    auto* to = elements_of<uint16_t>(y);
    parallel_for(x.numel(), 16384, [=](int64_t begin, int64_t end) {
      kernel::compress_to_bfloat16(from + begin, end - begin, to + begin);
    });
    return y;
  }
  check(x.rank() == 2, "to: int8: expected a matrix, got shape ", x.shape());
  check_finite(x);
  const int64_t cols = x.size(1), blocks = ceil_div(cols, kernel::scale_block);
  const Tensor scales = empty({x.size(0), blocks}, bfloat16);
  auto* values = elements_of<int8_t>(y);
  auto* ps = elements_of<uint16_t>(scales);
  parallel_for_each(x.size(0), row_grain(cols), [=](int64_t r) {
    kernel::compress_to_int8(from + r * cols, cols, values + r * cols, ps + r * blocks);
  });
  y.impl().scales = scales;
  return y;
}

}  // namespace

Tensor internal::recoded(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) {
    matrix_of("clone", x);  // refuses views that are not whole
    const Tensor y = empty(x.shape(), dtype);
    if (dtype == int8) y.impl().scales = empty(x.impl().scales.shape(), bfloat16);
    copy_compressed(x, y);
    return y;
  }
  return is_compressed(x.dtype()) ? decompress(x).to(dtype) : compress(x, dtype);
}

Tensor internal::floating(const Tensor& x) { return is_compressed(x.dtype()) ? decompress(x) : x; }

Tensor internal::rows_of(const Tensor& matrix, int64_t begin, int64_t end) {
  const Tensor rows = matrix.slice(0, begin, end);
  if (matrix.dtype() == int8) rows.impl().scales = matrix.impl().scales.slice(0, begin, end);
  return rows;
}

void internal::convert_in_place(const char* op, const NamedTensors& tensors, Dtype dtype) {
  const NoGrad no_grad;
  std::vector<std::pair<TensorImpl*, Tensor>> converted;
  for (const auto& [name, tensor] : tensors) {
    const Dtype own = tensor.dtype();
    if (own == dtype || !(is_floating(own) || is_compressed(own))) continue;
    const auto convert = [&x = tensor, dtype] { return x.to(dtype).contiguous(); };
    converted.emplace_back(&tensor.impl(), naming(std::string(op) + ": '" + name + "'", convert));
  }
  for (const auto& [own, tensor] : converted) {
    const TensorImpl& from = tensor.impl();
    from.storage->version = own->storage->version + 1;  // so that backward detects the change
    own->storage = from.storage;
    own->scales = from.scales;
    own->strides = from.strides;
    own->offset = from.offset;
    own->dtype = dtype;
    own->requires_grad &= is_floating(dtype);
    own->grad = {};
  }
}

Tensor internal::copy_compressed(const Tensor& source, const Tensor& to) {
  check(source.dtype() == to.dtype() && source.shape() == to.shape(), "copy_: expected ",
        to.dtype(), ' ', to.shape(), ", got ", source.dtype(), ' ', source.shape());
  matrix_of("copy_", source), matrix_of("copy_", to);
  core::begin_in_place("copy_", to);
  const auto bytes = static_cast<size_t>(source.numel() * size_of(source.dtype()));
  if (bytes > 0) std::memmove(elements_of<char>(to), elements_of<char>(source), bytes);
  if (to.dtype() == int8) copy_compressed(source.impl().scales, to.impl().scales);
  return to;
}

void internal::multiply_compressed(const Tensor& x, const Tensor& weight, const Tensor& out,
                                   const blas::TileDone& done) {
  const kernel::CompressedMatrix w = matrix_of("linear", weight);
  const Tensor rows = x.detach().contiguous();
  const int64_t m = rows.size(0), k = w.cols, n = w.rows;
  if (out.numel() == 0) return;
  const float* px = rows.data<float>();
  float* py = out.data<float>();
  ProfileScope::count(2.0 * static_cast<double>(m) * static_cast<double>(n * k), 0);
  const kernel::ProductShape shape{.operands = kernel::ProductOperands::compressed, .m = m};
  if (choose_product(shape, float32) == kernel::ProductKernel::compressed_dots) {
    const kernel::CompressedProduct product(w, m, px, py);
    parallel_for(n, product.grain(), [&](int64_t begin, int64_t end) { product.run(begin, end); });
    if (done) done({0, m, 0, n});
    return;
  }
  // Wide enough that gemm's packing of x does not show, narrow enough to stay in a cache.
  constexpr int64_t columns = 192;
  parallel_for(n, columns, [&](int64_t begin, int64_t end) {
    const Scratch<float> part((end - begin) * k);
    w.decompress(begin, end, part.data());
    blas::gemm_serial(blas::Product<float>{.trans_b = true,
                                           .m = m,
                                           .n = end - begin,
                                           .k = k,
                                           .a = px,
                                           .lda = k,
                                           .b = part.data(),
                                           .ldb = k,
                                           .c = py + begin,
                                           .ldc = n});
    if (done) done({0, m, begin, end - begin});
  });
}

void internal::embed_compressed(const Tensor& table, const Tensor& ids, const Tensor& y) {
  const kernel::CompressedMatrix w = matrix_of("embedding", table);
  const int64_t* id = ids.data<int64_t>();
  float* to = y.data<float>();
  parallel_for_each(ids.numel(), row_grain(w.cols),
                    [&](int64_t i) { w.decompress(id[i], id[i] + 1, to + i * w.cols); });
}

}  // namespace gradus
