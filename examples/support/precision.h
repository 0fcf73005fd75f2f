#pragma once
// The flag --precision: the precision of matrix products.

#include <cstdio>

#include "examples/support/flags.h"
#include "gradus/core/debug/build_info.h"
#include "gradus/core/runtime/modes.h"

namespace gradus {

/// The type to which matrix products of float32 round their operands.
enum class Precision { float32, bf16 };

inline void add_precision_flag(Flags& flags, Precision& precision) {
  flags.add("--precision", precision, {"float32", "bf16"},
            "matrix products: float32, or bf16 for operands rounded to bfloat16, which is faster");
}

/// Sets the precision of matrix products on this thread until the object is destroyed. If the
/// precision is bf16 but this build or processor has no bfloat16 products, prints a note to stderr
/// and uses float32.
struct PrecisionScope : Bfloat16Products {
  [[nodiscard]] explicit PrecisionScope(Precision precision)
      : Bfloat16Products(precision == Precision::bf16) {
    if (precision == Precision::bf16 && !has_bfloat16_products())
      std::fprintf(stderr, "--precision bf16: float32 in its place: %s\n",
                   "this build or processor has no bfloat16 products");
  }
};

}  // namespace gradus
