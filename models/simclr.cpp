#include "gradus/models/simclr.h"

#include "gradus/core/runtime/error.h"

namespace gradus::models {

void detail::check_views(const Tensor& a, const Tensor& b) {
  core::check(a.defined() && b.defined() && a.rank() == 4 && a.shape() == b.shape(),
              "SimCLR: expected two views (B, C, H, W) of each image, got ",
              a.defined() ? a.shape() : Shape{}, " and ", b.defined() ? b.shape() : Shape{});
  core::check(a.size(0) >= 2, "SimCLR: expected two images or more, as a view must be told from ",
              "those of others, got ", a.size(0));
}

}  // namespace gradus::models
