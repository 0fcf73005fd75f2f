#include "gradus/models/data/idx.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <vector>

#include "gradus/core/internal.h"
#include "gradus/core/open_file.h"

namespace gradus::models {

namespace {

/// Reads the header: two zero bytes, the type, the number of axes, and each axis's size as four
/// bytes, the highest first. Returns the shape.
Shape read_header(const std::string& context, File& file, uint64_t bytes_there) {
  std::array<uint8_t, 4> magic{}, size{};
  const size_t got = file.read(magic.data(), magic.size());
  check(got < 2 || magic[0] != 0x1f || magic[1] != 0x8b, context,
        "byte 0: this is a gzip file; unpack it first (gunzip)");
  check(got == magic.size(), context, "byte ", got, ": the file ends within its header");
  check(magic[0] == 0 && magic[1] == 0, context, "byte 0: expected two bytes 0, got ",
        int{magic[0]}, " and ", int{magic[1]});
  check(magic[2] == 0x08, context, "byte 2: expected type 8, unsigned bytes, got ", int{magic[2]});
  check(magic[3] >= 1 && magic[3] <= 4, context, "byte 3: expected 1 to 4 axes, got ",
        int{magic[3]});
  Shape shape;
  for (int axis = 0; axis < magic[3]; ++axis) {
    const uint64_t at = 4 + 4 * static_cast<uint64_t>(axis);
    check(file.read(size.data(), size.size()) == size.size(), context, "byte ", bytes_there,
          ": the file ends within its header, whose axis ", axis, " stands at byte ", at);
    uint32_t n = 0;
    for (uint8_t byte : size) n = n << 8 | byte;
    shape.push_back(n);
  }
  return shape;
}

/// Throws Error unless `bytes` remain for a tensor of this shape, neither more nor fewer.
void check_length(const std::string& context, const Shape& shape, uint64_t header, uint64_t bytes) {
  uint64_t wanted = 1;
  bool overflow = false;
  for (int64_t size : shape)
    overflow = __builtin_mul_overflow(wanted, static_cast<uint64_t>(size), &wanted) || overflow;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) wanted = 0, overflow = false;
  check(!overflow, context, "byte 4: no file holds the shape ", shape);
  check(wanted == bytes, context, "byte ", header + std::min(wanted, bytes), ": expected ", wanted,
        " bytes after the header, for the shape ", shape, ", got ", bytes);
}

}  // namespace

Tensor read_idx(const std::string& path, Dtype dtype) {
  const std::string context = "read_idx: " + path + ": ";
  File file(context, path, O_RDONLY);
  const uint64_t bytes = file.size();
  const Shape shape = read_header(context, file, bytes);
  const uint64_t header = 4 + 4 * static_cast<uint64_t>(shape.size());
  check_length(context, shape, header, bytes - header);
  const Tensor x = empty(shape, dtype);
  dispatch_number("read_idx", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = x.data<T>();
    std::vector<uint8_t> piece(1 << 16);
    for (int64_t left = x.numel(); left > 0;) {
      const auto n = static_cast<size_t>(std::min<int64_t>(left, std::ssize(piece)));
      file.read_exactly(piece.data(), n);
      to = std::copy_n(piece.begin(), n, to);
      left -= static_cast<int64_t>(n);
    }
  });
  return x;
}

}  // namespace gradus::models
