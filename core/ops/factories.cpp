#include "gradus/core/ops/factories.h"

#include <numeric>

#include "gradus/core/kernels/math.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus {

// ---- constants and sequences ----

Tensor core::full(const char* op, const Shape& shape, double value, Dtype dtype) {
  check_number(op, dtype, value);
  check(!is_compressed(dtype), op, ": expected float32, float64, int64 or bool, got ", dtype);
  return empty(shape, dtype).fill_(value);
}
Tensor full(const Shape& shape, double v, Dtype dtype) { return full("full", shape, v, dtype); }
Tensor zeros(const Shape& shape, Dtype dtype) { return full("zeros", shape, 0, dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones(const Shape& shape, Dtype dtype) { return full("ones", shape, 1, dtype); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype()); }
Tensor full_like(const Tensor& x, double v) { return full("full_like", x.shape(), v, x.dtype()); }
Tensor scalar(double value, Dtype dtype) { return full("scalar", {}, value, dtype); }

namespace {
/// Returns an integer as uint64_t, because intermediate results may wrap around.
uint64_t wrapping(double whole) { return static_cast<uint64_t>(static_cast<int64_t>(whole)); }

/// Writes linspace for int64.
void linspace_of_whole(double start, double end, int64_t n, int64_t* out) {
  for (double number : {start, end}) check_number("linspace", int64, number);
  const uint64_t from = wrapping(start), to = wrapping(end);
  const uint64_t distance = start <= end ? to - from : from - to;
  const auto gaps = static_cast<uint64_t>(std::max<int64_t>(n - 1, 1));
  check(n < 2 || distance % gaps == 0, "linspace: ", n, " numbers from ", start, " to ", end,
        " are not all integers");
  const uint64_t step = start <= end ? distance / gaps : uint64_t{0} - distance / gaps;
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<int64_t>(from + static_cast<uint64_t>(i) * step);
}
}  // namespace

Tensor arange(double start, double end, double step, Dtype dtype) {
  // Halving the ends and the step avoids an overflow of the distance.
  const double scale = std::isinf(end - start) ? 2 : 1;
  const double steps = (end / scale - start / scale) / (step / scale);
  check(step != 0 && std::isfinite(step) && steps >= 0, "arange: step ", step,
        " does not lead from ", start, " to ", end);
  check(steps < 0x1p59, "arange: too many elements from ", start, " to ", end, " by ", step);
  for (double number : {start, end, step}) check_number("arange", dtype, number);
  const auto n = static_cast<int64_t>(std::ceil(steps));
  Tensor x = empty({n}, dtype);
  dispatch_number("arange", dtype, [&]<class T>(TypeTag<T>) {
    T* out = x.data<T>();
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_floating_point_v<T>)
        out[i] = static_cast<T>((start / scale + static_cast<double>(i) * (step / scale)) * scale);
      else
        out[i] = static_cast<T>(wrapping(start) + static_cast<uint64_t>(i) * wrapping(step));
    }
  });
  return x;
}

Tensor linspace(double start, double end, int64_t n, Dtype dtype) {
  check(n >= 0, "linspace: expected a number of elements >= 0, got ", n);
  check(std::isfinite(start) && std::isfinite(end), "linspace: expected finite ends, got ", start,
        " and ", end);
  const Tensor x = empty({n}, dtype);
  dispatch_number("linspace", dtype, [&]<class T>(TypeTag<T>) {
    T* out = x.data<T>();
    if constexpr (std::is_same_v<T, int64_t>) return linspace_of_whole(start, end, n, out);
    // Each half counts from its own end, so that both ends are exact. Dividing before subtracting
    // avoids overflow.
    const auto gaps = static_cast<double>(n - 1);
    const double step = n < 3 ? 0 : end / gaps - start / gaps;
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                                              : end - step * static_cast<double>(n - 1 - i));
  });
  return x;
}

Tensor eye(int64_t n, Dtype dtype) {
  Tensor x = full("eye", {n, n}, 0, dtype);
  view_of(x, {n}, {n + 1}).fill_(1);
  return x;
}

// ---- given values ----

namespace {

/// The shape of a nested list, judged by its first entries.
Shape shape_of(const NestedList& values) {
  Shape shape;
  for (const NestedList* at = &values; at->is_list(); at = &at->list()[0]) {
    shape.push_back(std::ssize(at->list()));
    if (at->list().empty()) break;
  }
  return shape;
}

/// Calls f with each number of `values`, a list at nesting level `depth` of a list of this shape.
/// Throws Error if the shape does not match.
template <class F>
void for_each_number(const NestedList& values, const Shape& shape, int depth, const F& f) {
  const bool is_list = depth < shape.size();
  check(values.is_list() == is_list,
        "tensor: expected lists of equal depth, got a number beside a list");
  if (!is_list) return f(values);
  check(std::ssize(values.list()) == shape[depth], "tensor: rows of ", shape[depth], " and of ",
        values.list().size(), " numbers");
  for (const NestedList& entry : values.list()) for_each_number(entry, shape, depth + 1, f);
}

}  // namespace

Tensor tensor(const NestedList& values, Dtype dtype) {
  const Tensor x = empty(shape_of(values), dtype);
  dispatch_any("tensor", dtype, [&]<class T>(TypeTag<T>) {
    T* to = x.data<T>();
    for_each_number(values, x.shape(), 0,
                    [&](const NestedList& number) { *to++ = number.as<T>(); });
  });
  return x;
}

Tensor from_bytes(std::span<const uint8_t> bytes, const Shape& shape, Dtype dtype) {
  check(std::ssize(bytes) == checked_numel("from_bytes", shape), "from_bytes: ", bytes.size(),
        " bytes for shape ", shape);
  const Tensor x = empty(shape, dtype);
  dispatch_floating("from_bytes", dtype, [&]<class T>(TypeTag<T>) {
    std::copy(bytes.begin(), bytes.end(), x.data<T>());
  });
  return x;
}

// ---- memory of another owner ----

namespace {
/// Calls the deleter when the last Storage that shares the lease is destroyed.
struct Lease {
  void* data = nullptr;
  std::function<void(void*)> deleter;
  Lease() = default;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (deleter) deleter(data);
  }
};

/// Returns the number of elements from the first to the last in memory. Throws Error if it is too
/// large, or if two elements could share memory: from the smallest stride on, each must reach
/// beyond the elements of the axes before it.
int64_t checked_extent(const Shape& shape, const Shape& strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int i = 0; i < shape.size(); ++i) {
    check(strides[i] >= 0, "from_blob: expected strides >= 0, got ", strides,
          "; copy the elements instead");
    if (shape[i] > 1 && strides[i] > 0) axes.emplace_back(strides[i], shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t extent = 1, step = 0;
  for (const auto& [stride, size] : axes) {
    check(stride >= extent, "from_blob: elements of shape ", shape, " with strides ", strides,
          " share memory; copy them instead");
    check(!__builtin_mul_overflow(stride, size - 1, &step) &&
              !__builtin_add_overflow(extent, step, &extent) && extent <= INT64_MAX / 16,
          "from_blob: strides ", strides, " of shape ", shape, " reach too far");
  }
  return extent;
}
}  // namespace

Tensor from_blob(void* data, const Shape& shape, const Shape& strides, Dtype dtype,
                 std::function<void(void*)> deleter) {
  check(!is_compressed(dtype), "from_blob: expected float32, float64, int64 or bool, got ", dtype);
  check(shape.size() == strides.size(), "from_blob: ", strides.size(), " strides for shape ",
        shape);
  const int64_t numel = checked_numel("from_blob", shape), extent = checked_extent(shape, strides);
  check(data || numel == 0, "from_blob: null data for shape ", shape);
  check(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(dtype)) == 0,
        "from_blob: data for ", dtype, " must be aligned to ", size_of(dtype), " bytes");
  const auto impl = std::make_shared<core::TensorImpl>();
  const auto lease = std::make_shared<Lease>();
  impl->storage = std::make_shared<Storage>(lease, static_cast<std::byte*>(data),
                                            numel == 0 ? 0 : extent * size_of(dtype));
  impl->shape = shape;
  impl->strides = strides;
  impl->dtype = dtype;
  lease->data = data;
  lease->deleter = std::move(deleter);  // nothing throws from here on
  return Tensor(impl);
}
Tensor from_blob(void* data, const Shape& shape, Dtype dtype, std::function<void(void*)> deleter) {
  checked_numel("from_blob", shape);
  return from_blob(data, shape, contiguous_strides(shape), dtype, std::move(deleter));
}

// ---- random values ----

namespace {

/// Philox blocks computed at a time, and per chunk of work.
constexpr int64_t batch_blocks = 256, chunk_blocks = 16 * batch_blocks;

/// Elements per Philox block of four 32-bit words: 4 of four bytes or 2 of eight.
template <class T>
constexpr int64_t per_block = 16 / static_cast<int64_t>(sizeof(T));

/// Computes blocks [first, first + count): word k of block first + i goes to words[k][i].
void fill_words(RandomKey key, int64_t first, int64_t count, uint32_t (*words)[batch_blocks]) {
  simd_for(count, [=](int64_t i) {
    const auto w = philox(key, static_cast<uint64_t>(first + i));
    for (size_t k = 0; k < 4; ++k) words[k][i] = w[k];
  });
}

/// Returns a tensor of random elements. fill(words, count, values) converts the words of `count`
/// blocks to elements: values[k][i] is element k of block i.
template <class T, class Fill>
Tensor generate(const Shape& shape, Dtype dtype, const Fill& fill) {
  const Tensor y = empty(shape, dtype);
  const int64_t n = y.numel(), blocks = ceil_div(n, per_block<T>);
  const RandomKey key = default_generator().reserve(4 * blocks);
  T* out = y.data<T>();
  parallel_for(blocks, chunk_blocks, [=, &fill](int64_t begin, int64_t end) {
    uint32_t words[4][batch_blocks];
    T values[per_block<T>][batch_blocks];
    for (int64_t first = begin; first < end; first += batch_blocks) {
      const int64_t count = std::min(batch_blocks, end - first);
      fill_words(key, first, count, words);
      fill(words, count, values);
      const int64_t whole = std::min(count, n / per_block<T> - first);  // the last may be partial
      T* to = out + first * per_block<T>;
      for (int64_t i = 0; i < whole; ++i)
        for (int64_t k = 0; k < per_block<T>; ++k) *to++ = values[k][i];
      for (int64_t k = 0; to < out + n && whole < count; ++k) *to++ = values[k][whole];
    }
  });
  return y;
}

/// The k-th uniform number in [0, 1) of block i.
template <class T>
[[gnu::always_inline]] inline T uniform(uint32_t (*words)[batch_blocks], size_t k, int64_t i) {
  if constexpr (std::is_same_v<T, float>)
    return uniform_float(words[k][i]);
  else
    return uniform_double(words[2 * k][i], words[2 * k + 1][i]);
}

/// The k-th uniform number in (0, 1] of block i.
template <class T>
[[gnu::always_inline]] inline T positive(uint32_t (*words)[batch_blocks], size_t k, int64_t i) {
  if constexpr (std::is_same_v<T, float>)
    return (static_cast<float>(words[k][i]) + 1) * 0x1p-32f;
  else
    return 1 - uniform<double>(words, k, i);
}

/// Converts uniform u in (0, 1] and v in [0, 1) to independent Normal(0, 1) numbers in place. Box &
/// Muller 1958: radius sqrt(-2 log u), angle 2 pi v.
template <class T>
void box_muller(int64_t n, T* u, T* v) {
  simd_for(n, [=](int64_t i) {
    const T radius = std::sqrt(T{-2} * kernel::log(u[i]));
    const T angle = T{2} * std::numbers::pi_v<T> * v[i];
    u[i] = radius * kernel::cos(angle);
    v[i] = radius * kernel::sin(angle);
  });
}

/// Maps uniform 64-bit `bits` to a uniform number in [0, n): the high half of their 128-bit
/// product.
inline uint64_t scale_to(uint64_t bits, uint64_t n) {
  const uint64_t low = (bits & 0xFFFFFFFFu) * (n & 0xFFFFFFFFu);
  const uint64_t mid1 = (bits >> 32) * (n & 0xFFFFFFFFu) + (low >> 32);
  const uint64_t mid2 = (bits & 0xFFFFFFFFu) * (n >> 32) + (mid1 & 0xFFFFFFFFu);
  return (bits >> 32) * (n >> 32) + (mid1 >> 32) + (mid2 >> 32);
}

}  // namespace

Tensor randn(const Shape& shape, Dtype dtype) {
  ProfileScope scope("randn");
  return dispatch_floating("randn", dtype, [&]<class T>(TypeTag<T>) {
    return generate<T>(shape, dtype, [](auto words, int64_t count, auto values) {
      for (size_t k = 0; k < per_block<T>; k += 2) {
        simd_for(count, [=](int64_t i) {
          values[k][i] = positive<T>(words, k, i);
          values[k + 1][i] = uniform<T>(words, k + 1, i);
        });
        box_muller(count, values[k], values[k + 1]);
      }
    });
  });
}

Tensor rand(const Shape& shape, Dtype dtype) {
  ProfileScope scope("rand");
  return dispatch_floating("rand", dtype, [&]<class T>(TypeTag<T>) {
    return generate<T>(shape, dtype, [](auto words, int64_t count, auto values) {
      for (size_t k = 0; k < per_block<T>; ++k)
        simd_for(count, [=](int64_t i) { values[k][i] = uniform<T>(words, k, i); });
    });
  });
}

Tensor randn_like(const Tensor& x) { return randn(x.shape(), x.dtype()); }
Tensor rand_like(const Tensor& x) { return rand(x.shape(), x.dtype()); }

Tensor randint(int64_t low, int64_t high, const Shape& shape) {
  ProfileScope scope("randint");
  check(low < high, "randint: expected low < high, got ", low, " and ", high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return generate<int64_t>(shape, int64, [=](auto words, int64_t count, auto values) {
    for (size_t k = 0; k < 2; ++k)
      simd_for(count, [=](int64_t i) {
        const uint64_t bits = uint64_t{words[2 * k][i]} << 32 | words[2 * k + 1][i];
        values[k][i] = static_cast<int64_t>(static_cast<uint64_t>(low) + scale_to(bits, range));
      });
  });
}

Tensor randperm(int64_t n) {
  check(n >= 0 && n < int64_t{1} << 59, "randperm: expected 0 <= n < 2^59, got ", n);
  return randperm(n, default_generator().reserve(4 * n));
}

// Fisher & Yates, as in Durstenfeld 1964: position i is swapped with one of the positions 0, ...,
// i.
Tensor randperm(int64_t n, RandomKey key) {
  ProfileScope scope("randperm");
  check(n >= 0, "randperm: expected n >= 0, got ", n);
  const Tensor y = empty({n}, int64);
  int64_t* p = y.data<int64_t>();
  std::iota(p, p + n, int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) {
    const auto w = philox(key, static_cast<uint64_t>(i));
    const uint64_t bits = uint64_t{w[0]} << 32 | w[1];
    std::swap(p[i], p[scale_to(bits, static_cast<uint64_t>(i) + 1)]);
  }
  return y;
}

}  // namespace gradus
