#pragma once
// The flag --precision of all programs that run a model.

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

/// Sets the precision of matrix products on this thread during its lifetime. Prints a note to
/// stderr if this build or processor does not support it.
struct PrecisionScope : Bfloat16Products {
  [[nodiscard]] explicit PrecisionScope(Precision precision)
      : Bfloat16Products(precision == Precision::bf16) {
    if (precision == Precision::bf16 && !has_bfloat16_products())
      std::fprintf(stderr, "--precision bf16: float32 in its place: %s\n",
                   "this build or processor has no bfloat16 products");
  }
};

}  // namespace gradus
