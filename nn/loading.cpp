#include "gradus/nn/loading.h"

#include <utility>

#include "gradus/core/internal.h"

namespace gradus::internal {

namespace {
thread_local Loading* innermost = nullptr;
}  // namespace

Loading::Loading(int64_t elements) : left_(elements), outer_(std::exchange(innermost, this)) {}

Loading::~Loading() { innermost = outer_; }

Loading* Loading::current() { return innermost; }

void Loading::count(const char* layer, const std::string& name, const Shape& shape) {
  check(shape.numel() <= left_, layer, ": parameter '", name, "': ", shape, " exceeds the ", left_,
        " elements left in the weights file");
  left_ -= shape.numel();
}

const Shape& checked_sizes(const char* layer, const Shape& shape) {
  for (const int64_t size : shape) check(size > 0, layer, ": expected sizes > 0, got ", shape);
  checked_numel(layer, shape);
  return shape;
}

}  // namespace gradus::internal
