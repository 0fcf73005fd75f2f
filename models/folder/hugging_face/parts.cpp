#include "gradus/models/folder/hugging_face/parts.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/shape.h"

namespace gradus::models::internal {

std::vector<Part> parts_of(const HuggingFaceParameter& parameter, int64_t rows,
                           const HeadLayout& layout) {
  const auto count = std::ssize(parameter.names);
  const bool is_rotary = parameter.layer->kind == HuggingFaceLayer::rotary;
  std::vector<int64_t> sizes(static_cast<size_t>(count), rows / count);
  if (is_rotary || parameter.layer->kind == HuggingFaceLayer::heads) {
    const int64_t keys = layout.kv_heads * layout.head_dim;
    if (count == 1) sizes = {layout.head_dim};
    if (count == 3) sizes = {layout.heads * layout.head_dim, keys, keys};
  }
  std::vector<Part> parts;
  for (const int64_t size : sizes) {
    const int64_t begin = parts.empty() ? 0 : parts.back().end;
    parts.push_back({begin, begin + size, is_rotary && parts.size() < 2});
  }
  check(parts.back().end == rows, "expected a model with ", parts.back().end, " rows in ",
        parameter.layer->layer, ", got ", rows);
  return parts;
}

Tensor reordered(const Tensor& x, int64_t head_dim, bool to_ours) {
  const int64_t first = to_ours ? 2 : head_dim / 2;
  return x.reshape({x.size(0) / head_dim, first, head_dim / first, -1})
      .transpose(1, 2)
      .reshape(x.shape());
}

}  // namespace gradus::models::internal
