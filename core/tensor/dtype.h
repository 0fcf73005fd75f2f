#pragma once
// Dtype: the element types of tensors, dispatch from a Dtype to its C++ type, and checked
// conversion of numbers.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <limits>
#include <ostream>
#include <utility>

#include "gradus/core/runtime/error.h"

namespace gradus {

/// The type of a tensor's elements. float32, float64, int64 and boolean correspond to the C++ types
/// float, double, int64_t and bool. bfloat16 and int8 store weights in less memory; Tensor::to()
/// converts weights to these dtypes.
enum class Dtype : uint8_t { float32, float64, int64, boolean, bfloat16, int8 };

///@{
/// Short names, as in zeros({2, 3}, float64).
inline constexpr Dtype float32 = Dtype::float32;
inline constexpr Dtype float64 = Dtype::float64;
inline constexpr Dtype int64 = Dtype::int64;
inline constexpr Dtype boolean = Dtype::boolean;
inline constexpr Dtype bfloat16 = Dtype::bfloat16;
inline constexpr Dtype int8 = Dtype::int8;
///@}

/// Returns the dtype's name: "float32", "float64", "int64", "bool", "bfloat16" or "int8".
inline const char* name_of(Dtype dtype) {
  constexpr const char* names[] = {"float32", "float64", "int64", "bool", "bfloat16", "int8"};
  const auto i = static_cast<size_t>(dtype);
  return i < std::size(names) ? names[i] : "?";
}
/// Prints name_of(dtype).
inline std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name_of(dtype); }

/// Returns the number of bytes per element. An int8 matrix takes more memory than this, because it
/// also has scales: one bfloat16 per block of up to 32 elements of a row.
inline int64_t size_of(Dtype dtype) {
  constexpr int64_t sizes[] = {4, 8, 8, 1, 2, 1};
  return sizes[static_cast<size_t>(dtype)];
}
/// Returns whether the dtype is float32 or float64. Only tensors of these dtypes have gradients.
inline bool is_floating(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::float64; }
/// Returns whether the dtype is bfloat16 or int8. The only ops that compute with these dtypes are
/// linear, updated_linear, feed_forward and embedding; Tensor::to converts to and from them.
inline bool is_compressed(Dtype dtype) { return dtype == Dtype::bfloat16 || dtype == Dtype::int8; }

/// Throws Error if the dtype is int64 and `value` is not an integer in the range of int64. The
/// message begins with `op`.
inline void check_number(const char* op, Dtype dtype, double value) {
  const bool whole = value == std::trunc(value) && value >= -0x1p63 && value < 0x1p63;
  core::check(dtype != Dtype::int64 || whole, op, ": ", value, " is not an int64");
}

/// A C++ type that tensors can have as elements: float, double, int64_t or bool.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int64_t> ||
    std::same_as<T, bool>;

/// The dtype of a C++ type, for example float32 for float.
template <Element T>
inline constexpr Dtype dtype_of = std::same_as<T, float>     ? float32
                                  : std::same_as<T, double>  ? float64
                                  : std::same_as<T, int64_t> ? int64
                                                             : boolean;

/// Returns v converted to To. For an integer type To other than bool, truncates v, and throws Error
/// if v is NaN or if the truncated v is out of To's range; the message begins with `op`.
template <class To, class From>
To number_as(const char* op, From v) {
  if constexpr (std::same_as<To, bool>) {
    return v != From{};
  } else if constexpr (std::integral<To> && std::floating_point<From>) {
    // Each bound is 0 or plus or minus a power of two, so From represents it exactly.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    const From whole = std::trunc(v);
    core::check(whole >= low && whole < above, op, ": ", v,
                " does not fit the requested integer type");
    return static_cast<To>(v);
  } else if constexpr (std::integral<To> && !std::same_as<From, bool>) {
    core::check(std::in_range<To>(v), op, ": ", v, " does not fit the requested integer type");
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

/// An empty object that passes the C++ type T to a generic lambda.
template <class T>
struct TypeTag {
  using type = T;  ///< the type itself
};

/// Returns f(TypeTag<T>{}), where T is the C++ type of `dtype`, float or double. Throws Error for
/// other dtypes; the message begins with `op`. Example:
///   dispatch_floating("exp", x.dtype(), [&]<class T>(TypeTag<T>) { ... x.data<T>() ... });
template <class F>
decltype(auto) dispatch_floating(const char* op, Dtype dtype, F&& f) {
  core::check(is_floating(dtype), op, ": expected float32 or float64, got ", dtype);
  if (dtype == Dtype::float32) return f(TypeTag<float>{});
  return f(TypeTag<double>{});
}

/// Returns f(TypeTag<T>{}), where T is the C++ type of `dtype`: float, double or int64_t. Throws
/// Error for other dtypes; the message begins with `op`.
template <class F>
decltype(auto) dispatch_number(const char* op, Dtype dtype, F&& f) {
  if (dtype == Dtype::int64) return f(TypeTag<int64_t>{});
  core::check(is_floating(dtype), op, ": expected float32, float64 or int64, got ", dtype);
  return dispatch_floating(op, dtype, std::forward<F>(f));
}

/// Returns f(TypeTag<T>{}), where T is the C++ type of `dtype`: float, double, int64_t or bool.
/// Throws Error for other dtypes; the message begins with `op`.
template <class F>
decltype(auto) dispatch_any(const char* op, Dtype dtype, F&& f) {
  if (dtype == Dtype::boolean) return f(TypeTag<bool>{});
  core::check(!is_compressed(dtype), op, ": expected float32, float64, int64 or bool, got ", dtype);
  return dispatch_number(op, dtype, std::forward<F>(f));
}

}  // namespace gradus
