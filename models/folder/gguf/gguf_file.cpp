#include "gradus/models/folder/gguf/gguf_file.h"

#include <fcntl.h>

#include <charconv>
#include <set>

#include "gradus/core/files/checksum.h"
#include "gradus/core/files/json.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/folder/gguf/gguf_types.h"

namespace gradus::models::internal {

using nlohmann::json, nlohmann::ordered_json;

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

constexpr char magic[] = "GGUF", alignment_key[] = "general.alignment";
// Our files have both entries and other programs' files neither, so that a bit flipped in one key
// is detected. The checksum is that of the file with zeros for its digits.
constexpr char format_key[] = "gradus.format", checksum_key[] = "gradus.checksum";
constexpr char no_digits[] = "0000000000000000";
constexpr uint64_t default_alignment = 32;

enum ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

// ---- reading ----

/// The float32's shortest decimal as a double: 1e-5, not 9.99999974737875e-06.
double decimal(float x) {
  if (!std::isfinite(x)) return static_cast<double>(x);
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), x).ptr;
  double value = 0;
  std::from_chars(text, end, value);
  return value;
}

class Reader {
 public:
  explicit Reader(std::shared_ptr<const Mapping> file) : file_(std::move(file)) {}

  GgufFile read() {
    check(file_->bytes >= 4 && std::memcmp(file_->data, magic, 4) == 0,
          "expected a GGUF file, which begins with \"GGUF\"");
    at_ = 4;
    const auto version = number<uint32_t>();
    check(version == 2 || version == 3, "expected version 2 or 3 in little-endian, got ", version);
    const auto tensors = number<uint64_t>(), entries = number<uint64_t>();
    constexpr uint64_t most_entries = 10'000;
    check(entries <= most_entries, "expected at most ", most_entries, " entries of metadata, got ",
          entries);
    GgufFile result;
    for (uint64_t i = 0; i < entries; ++i) read_entry(i, result.metadata);
    check_checksum(result.metadata);
    std::vector<Entry> index;
    std::set<std::string> names;
    for (uint64_t i = 0; i < tensors; ++i) {
      index.push_back(read_tensor(i));
      if (!names.insert(index.back().name).second)
        fail("two tensors are named ", shown(index.back().name));
    }
    place(index, alignment(result.metadata));
    for (const Entry& entry : index) result.tensors.emplace_back(entry.name, make_tensor(entry));
    return result;
  }

 private:
  struct Entry {
    std::string name;
    const StoredType* type = nullptr;
    Shape shape;
    uint64_t offset = 0, bytes = 0;
  };

  std::byte* take(uint64_t bytes, const char* what) {
    check(bytes <= file_->bytes - at_, what, " at byte ", at_, " takes ", bytes,
          " bytes, but only ", file_->bytes - at_, " follow");
    at_ += bytes;
    return file_->data + (at_ - bytes);
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value, "a number"), sizeof value);
    return value;
  }

  std::string text() {
    const auto bytes = number<uint64_t>();
    return {reinterpret_cast<const char*>(take(bytes, "a string")), static_cast<size_t>(bytes)};
  }

  /// Returns f(), which reads the entry i of its kind; messages begin with what() or its number.
  template <class What, class F>
  auto naming(const char* kind, uint64_t i, const What& name, F&& f) {
    try {
      return f();
    } catch (const Error& e) {
      fail(kind, ' ', name.empty() ? std::to_string(i) : shown(json(name)), ": ", e.what());
    }
  }

  void read_entry(uint64_t i, ordered_json& metadata) {
    std::string key;
    naming("metadata", i, key, [&] {
      key = text();
      if (!keys_.insert(key).second) fail("the key is given twice");
      const auto type = number<uint32_t>();
      if (type != array) {
        metadata[key] = value(type);
        return;
      }
      const auto item = number<uint32_t>();
      const auto count = number<uint64_t>();
      check(item != array, "expected an array of plain values, got one of arrays");
      // An array that the file is too short for fails before its end is allocated.
      json all = json::array();
      for (uint64_t j = 0; j < count; ++j) all.push_back(value(item));
      metadata[key] = std::move(all);
    });
    if (key == checksum_key) digits_end_ = at_;
  }

  json value(uint32_t type) {
    switch (type) {
      case u8:
        return number<uint8_t>();
      case i8:
        return number<int8_t>();
      case u16:
        return number<uint16_t>();
      case i16:
        return number<int16_t>();
      case u32:
        return number<uint32_t>();
      case i32:
        return number<int32_t>();
      case f32:
        return decimal(number<float>());
      case boolean:
        return number<uint8_t>() != 0;
      case string:
        return text();
      case u64:
        return number<uint64_t>();
      case i64:
        return number<int64_t>();
      case f64:
        return number<double>();
      default:
        fail("expected a type from 0 to 12, got ", type);
    }
  }

  static uint64_t alignment(const ordered_json& metadata) {
    const json value = metadata.value(alignment_key, ordered_json(default_alignment));
    const uint64_t alignment = value.is_number_unsigned() ? value.get<uint64_t>() : 0;
    if (!std::has_single_bit(alignment) || alignment > 1 << 20)
      fail("metadata \"", alignment_key, "\": expected a power of 2 up to 2^20, got ",
           shown(value));
    return alignment;
  }

  void check_checksum(ordered_json& metadata) {
    const bool is_ours = metadata.erase(format_key) > 0, has = metadata.contains(checksum_key);
    check(is_ours == has, "metadata: expected both ", format_key, " and ", checksum_key,
          " or neither");
    if (!has) return;
    const json expected = metadata[checksum_key];
    metadata.erase(checksum_key);
    constexpr size_t length = sizeof no_digits - 1;
    if (!expected.is_string() || expected.get_ref<const std::string&>().size() != length)
      fail("metadata \"", checksum_key, "\": expected ", length, " digits, got ", shown(expected));
    std::memcpy(file_->data + digits_end_ - length, no_digits, length);  // not in the file itself
    Checksum checksum;
    checksum.add(file_->data, file_->bytes);
    if (expected != checksum.digits())
      fail("the content does not match its checksum ", shown(expected),
           ": the file is damaged, or was changed by a program that kept ", checksum_key);
  }

  Entry read_tensor(uint64_t i) {
    Entry entry;
    naming("tensor", i, entry.name, [&] {
      entry.name = text();
      const auto rank = number<uint32_t>();
      check(rank >= 1 && rank <= 4, "expected 1 to 4 axes, got ", rank);
      std::vector<int64_t> sizes(rank);
      uint64_t bytes = sizeof(float);  // in memory
      for (uint32_t axis = rank; axis-- > 0;) {
        const auto size = number<uint64_t>();
        check(size >= 1 && !__builtin_mul_overflow(bytes, size, &bytes) && bytes <= INT64_MAX,
              "expected sizes of at least 1 whose product fits, got ", size);
        sizes[axis] = static_cast<int64_t>(size);
      }
      entry.shape = sizes;
      const auto type = number<uint32_t>();
      for (const StoredType& one : stored_types)
        if (type == one.number) entry.type = &one;
      check(entry.type, "expected the type f32, f16, bf16 or q8_0, got GGML's type ", type);
      check(sizes.back() % entry.type->elements == 0, entry.type->name, ": expected rows of a ",
            "multiple of ", entry.type->elements, " elements, got ", sizes.back());
      entry.bytes =
          static_cast<uint64_t>(entry.shape.numel() / entry.type->elements * entry.type->bytes);
      entry.offset = number<uint64_t>();
    });
    return entry;
  }

  /// Checks that the tensors follow each other, each aligned, and fill the file.
  void place(std::vector<Entry>& index, uint64_t alignment) {
    const auto aligned = [&](uint64_t at) { return (at + alignment - 1) / alignment * alignment; };
    uint64_t end = aligned(at_);
    const uint64_t begin = end;
    for (Entry& entry : index) {
      const uint64_t expected = aligned(end - begin);
      if (entry.offset != expected)
        fail("tensor ", shown(entry.name), ": expected the offset ", expected, ", got ",
             entry.offset);
      entry.offset += begin;
      if (entry.offset > file_->bytes || entry.bytes > file_->bytes - entry.offset)
        fail("tensor ", shown(entry.name), ": ", entry.type->name, ' ', entry.shape, " takes ",
             entry.bytes, " bytes from byte ", entry.offset, " on, the file has ", file_->bytes);
      end = entry.offset + entry.bytes;
    }
    // Other programs may leave out the zeros after the last tensor.
    const bool is_whole = file_->bytes == aligned(end) || (digits_end_ == 0 && file_->bytes >= end);
    check(index.empty() || (is_whole && file_->bytes <= aligned(end)), "expected ", aligned(end),
          " bytes, got ", file_->bytes);
  }

  Tensor make_tensor(const Entry& entry) const {
    std::byte* const from = file_->data + entry.offset;
    if (entry.type->decode || reinterpret_cast<uintptr_t>(from) % alignof(float) != 0) {
      const Tensor tensor = empty(entry.shape, float32);
      if (entry.type->decode)
        entry.type->decode(from, tensor.numel(), tensor.data<float>());
      else
        std::memcpy(tensor.data<float>(), from, entry.bytes);
      return tensor;
    }
    auto impl = std::make_shared<TensorImpl>();
    impl->storage = std::make_shared<Storage>(file_, from, static_cast<int64_t>(entry.bytes));
    impl->shape = entry.shape;
    impl->strides = contiguous_strides(entry.shape);
    impl->dtype = float32;
    return Tensor(std::move(impl));
  }

  std::shared_ptr<const Mapping> file_;
  uint64_t at_ = 0, digits_end_ = 0;
  std::set<std::string> keys_;
};

}  // namespace

GgufFile read_gguf(const std::string& path) {
  return naming("load_gguf: " + path, [&] {
    File file("", path, O_RDONLY | O_NONBLOCK);  // rejects a pipe instead of waiting for it
    return Reader(std::make_shared<const Mapping>(file)).read();
  });
}

// ---- writing ----

namespace {

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, const std::string& text) {
  append<uint64_t>(to, text.size());
  to += text;
}

void append_value(std::string& to, const json& value, bool in_array) {
  const auto type = [&](ValueType one) {
    if (!in_array) append<uint32_t>(to, one);
  };
  if (value.is_string()) {
    type(string);
    append_text(to, value);
  } else if (value.is_boolean()) {
    type(boolean);
    append<uint8_t>(to, value.get<bool>());
  } else if (value.is_number_float()) {
    type(f32);
    append<float>(to, value);
  } else {
    type(in_array ? i32 : u32);
    append<uint32_t>(to, value);
  }
}

/// The type of an array's values.
ValueType type_of_values(const json& all) {
  if (all.empty() || all[0].is_string()) return string;
  if (all[0].is_boolean()) return boolean;
  return all[0].is_number_float() ? f32 : i32;
}

std::string opening(const GgufFile& file, const std::string& index, const std::string& digits) {
  ordered_json metadata = file.metadata;
  metadata[format_key] = "1";
  metadata[checksum_key] = digits;
  std::string text = magic;
  append<uint32_t>(text, 3);
  append<uint64_t>(text, file.tensors.size());
  append<uint64_t>(text, metadata.size());
  for (const auto& [key, value] : metadata.items()) {
    append_text(text, key);
    if (value.is_array()) {
      append<uint32_t>(text, array);
      append<uint32_t>(text, type_of_values(value));
      append<uint64_t>(text, value.size());
      for (const auto& one : value) append_value(text, one, true);
    } else {
      append_value(text, value, false);
    }
  }
  text += index;
  text.resize((text.size() + default_alignment - 1) / default_alignment * default_alignment);
  return text;
}

/// Calls put(bytes, n) with the tensor's encoded elements, in pieces of a multiple of 32 bytes and
/// padded with zeros to one.
template <class Put>
void encode(const Tensor& x, const StoredType& type, Put&& put) {
  constexpr int64_t piece = 1 << 16;  // elements
  const Tensor t = x.detach().to(float32).contiguous();
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < t.numel(); i += piece) {
    const int64_t n = std::min(piece, t.numel() - i), used = n / type.elements * type.bytes;
    bytes.assign(static_cast<size_t>((used + 31) / 32 * 32), std::byte{0});
    type.encode(t.data<float>() + i, n, bytes.data());
    put(bytes.data(), bytes.size());
  }
}

}  // namespace

void write_gguf(const std::string& path, const GgufFile& file, GgufType type,
                bool (*is_wide)(const std::string& name)) {
  std::string index;
  std::vector<const StoredType*> types;
  int64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    GgufType own = tensor.rank() < 2 || is_wide(name) ? GgufType::f32 : type;
    if (own == GgufType::q8_0 && tensor.size(-1) % stored(own).elements != 0) own = GgufType::f16;
    types.push_back(&stored(own));
    append_text(index, name);
    append<uint32_t>(index, static_cast<uint32_t>(tensor.rank()));
    for (int64_t axis = tensor.rank(); axis-- > 0;)
      append<uint64_t>(index, static_cast<uint64_t>(tensor.size(axis)));
    append<uint32_t>(index, types.back()->number);
    append<uint64_t>(index, static_cast<uint64_t>(offset));
    const int64_t bytes = tensor.numel() / types.back()->elements * types.back()->bytes;
    offset += (bytes + 31) / 32 * 32;
  }
  replace_file("save_gguf", path, [&](File& out) {
    Checksum checksum;
    const auto put = [&](const void* bytes, size_t n) {
      checksum.add(bytes, n);
      out.write(bytes, n);
    };
    std::string start = opening(file, index, no_digits);
    put(start.data(), start.size());
    for (size_t i = 0; i < types.size(); ++i) {
      naming("save_gguf: tensor " + shown(file.tensors[i].first) + ": " + types[i]->name,
             [&] { encode(file.tensors[i].second, *types[i], put); });
    }
    start = opening(file, index, checksum.digits());
    out.rewind();
    out.write(start.data(), start.size());
  });
}

}  // namespace gradus::models::internal
