#include "gradus/core/files/safetensors.h"

#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "gradus/core/files/checksum.h"
#include "gradus/core/files/json.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"
#include "gradus/core/kernels/products/compressed.h"
#include "gradus/core/kernels/products/float16.h"
#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t max_header_bytes = 100'000'000;
// Bytes written at a time, so that they stay in cache; a multiple of 32.
constexpr size_t block_bytes = 1 << 18;
constexpr char metadata_key[] = "__metadata__";
constexpr char scales_suffix[] = ".scales";  // an int8 matrix NAME has its scales in NAME.scales

// Our files have both entries in their metadata and other programs' files neither, so that a bit
// flipped in one name is detected.
constexpr char checksum_key[] = "gradus.checksum", format_key[] = "gradus.format";

char* bytes_of(const Tensor& t) {
  return reinterpret_cast<char*>(t.impl().storage->data() + t.impl().offset * size_of(t.dtype()));
}

// ---- element types ----

bool bool_from_byte(uint8_t x) { return x != 0; }

template <class From>
int64_t int64_from(From x) {
  check(std::in_range<int64_t>(x), "value ", x, " does not fit into int64");
  return static_cast<int64_t>(x);
}

/// Fills t with elements stored as From.
template <class From, class To, To (*convert)(From)>
void convert_all(const std::byte* from, const Tensor& t) {
  To* to = t.data<To>();
  for (int64_t i = 0; i < t.numel(); ++i, from += sizeof(From)) {
    From x;
    std::memcpy(&x, from, sizeof x);
    to[i] = convert(x);
  }
}

template <class From>
constexpr auto convert_integers = convert_all<From, int64_t, int64_from<From>>;

/// One of the format's element types and its conversion to one of ours.
struct StoredType {
  const char* name;
  uint64_t bytes;
  Dtype dtype;
  void (*convert)(const std::byte* from, const Tensor& to);  // null: stored as is
};

const StoredType stored_types[] = {
    {"F32", 4, float32, nullptr},
    {"F64", 8, float64, nullptr},
    {"I64", 8, int64, nullptr},
    {"BOOL", 1, boolean, convert_all<uint8_t, bool, bool_from_byte>},
    {"F16", 2, float32, convert_all<uint16_t, float, kernel::float_from_float16>},
    {"BF16", 2, float32, convert_all<uint16_t, float, kernel::float_from_bfloat16>},
    {"I32", 4, int64, convert_integers<int32_t>},
    {"I16", 2, int64, convert_integers<int16_t>},
    {"I8", 1, int64, convert_integers<int8_t>},
    {"U32", 4, int64, convert_integers<uint32_t>},
    {"U16", 2, int64, convert_integers<uint16_t>},
    {"U8", 1, int64, convert_integers<uint8_t>},
    {"U64", 8, int64, convert_integers<uint64_t>},
};

const char* stored_name(Dtype dtype) {
  if (is_compressed(dtype)) return dtype == int8 ? "I8" : "BF16";
  return std::find_if(std::begin(stored_types), std::end(stored_types),
                      [&](const StoredType& type) { return type.dtype == dtype; })
      ->name;
}

// ---- the header ----

/// One tensor as the header describes it: bytes [begin, end) of the data.
struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  uint64_t begin = 0, end = 0;
  const Entry* scales = nullptr;  // of an int8 matrix
  bool are_scales = false;        // belong to an int8 matrix
};

/// Throws Error unless value[key] is an array of whole numbers from 0 to 2^63 - 1.
std::vector<int64_t> whole_numbers(const json& value, const char* key) {
  const auto found = value.find(key);
  check(found != value.end() && found->is_array(), "expected an array '", key, "'");
  std::vector<int64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX)
      fail(key, ": expected whole numbers from 0 to 2^63 - 1, got ", shown(number));
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

Entry parse_entry(const std::string& name, const json& value, uint64_t data_bytes) {
  Entry entry;
  entry.name = name;
  const auto dtype = json_text(value, "dtype");
  for (const StoredType& type : stored_types)
    if (dtype == type.name) entry.type = &type;
  if (!entry.type) fail("unknown dtype ", shown(dtype));

  const std::vector<int64_t> sizes = whole_numbers(value, "shape");
  check(sizes.size() <= max_rank, "expected at most ", max_rank, " axes, got ", sizes.size());
  entry.shape = sizes;
  // Strides are products of sizes, so the product of the nonzero sizes must not overflow even if
  // another size is 0. Nor may the number of bytes in memory, at most 8 per element.
  int64_t bytes = 8;
  for (int64_t size : sizes)
    check(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes), "shape ", entry.shape,
          " overflows");

  const std::vector<int64_t> offsets = whole_numbers(value, "data_offsets");
  check(offsets.size() == 2, "data_offsets: expected 2 numbers, got ", offsets.size());
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  check(entry.begin <= entry.end && entry.end <= data_bytes, "data_offsets ", entry.begin, " to ",
        entry.end, " do not lie within the ", data_bytes, " bytes of data");
  const uint64_t expected_bytes = static_cast<uint64_t>(entry.shape.numel()) * entry.type->bytes;
  check(entry.end - entry.begin == expected_bytes, "shape ", entry.shape, " of ", entry.type->name,
        " takes ", expected_bytes, " bytes, data_offsets ", entry.begin, " to ", entry.end,
        " give ", entry.end - entry.begin);
  return entry;
}

/// The tensors in the order of their data. Throws Error if they overlap or leave gaps.
std::vector<Entry> parse_entries(const json& header, uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == metadata_key) continue;
    naming("tensor " + shown(item.key()),
           [&] { entries.push_back(parse_entry(item.key(), item.value(), data_bytes)); });
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < covered)
      fail("tensor ", shown(entry.name), " overlaps another at byte ", entry.begin, " of the data");
    check(entry.begin == covered, "bytes ", covered, " to ", entry.begin,
          " of the data belong to no tensor");
    covered = entry.end;
  }
  check(covered == data_bytes, "expected ", covered, " bytes of data, got ", data_bytes);
  return entries;
}

std::map<std::string, std::string> parse_metadata(const json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find(metadata_key);
  if (found == header.end()) return metadata;
  check(found->is_object(), metadata_key, ": expected an object of strings");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) fail(metadata_key, ": expected a string for ", shown(key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// Removes our own entries from the metadata, and the checksum from the header too. Returns the
/// checksum; files written by other programs have none.
std::optional<std::string> take_checksum(json& header,
                                         std::map<std::string, std::string>& metadata) {
  const bool ours = metadata.erase(format_key) > 0;
  const auto checksum = metadata.extract(checksum_key);
  check(!ours || checksum, metadata_key, ": ", format_key, " without ", checksum_key);
  if (!checksum) return {};
  header[metadata_key].erase(checksum_key);
  return checksum.mapped();
}

/// Returns a checksum of the header, to which the caller adds the data. The header must not contain
/// the checksum.
Checksum checksum_of(const json& header) {
  const std::string text = header.dump();
  Checksum checksum;
  checksum.add(text.data(), text.size());
  return checksum;
}

/// Returns the header's text.
std::string_view read_header(const Mapping& file) {
  check(file.bytes >= 8, "expected at least 8 bytes, got ", file.bytes);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data, 8);
  check(header_bytes <= max_header_bytes, "a header of ", header_bytes,
        " bytes is longer than the ", max_header_bytes, " allowed");
  check(header_bytes <= file.bytes - 8, "expected a header of ", header_bytes, " bytes, but only ",
        file.bytes - 8, " follow");
  const std::string_view text(reinterpret_cast<const char*>(file.data) + 8, header_bytes);
  check(text.starts_with('{'), "the header is not a JSON object");
  return text;
}

/// A tensor of the entry's bytes as they are: of the mapped bytes if they are aligned, else a copy.
Tensor unconverted(const Entry& entry, Dtype dtype, const std::shared_ptr<const Mapping>& file,
                   std::byte* data) {
  std::byte* from = data + entry.begin;
  if (reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(size_of(dtype)) == 0) {
    auto impl = std::make_shared<TensorImpl>();
    impl->storage =
        std::make_shared<Storage>(file, from, static_cast<int64_t>(entry.end - entry.begin));
    impl->shape = entry.shape;
    impl->strides = contiguous_strides(entry.shape);
    impl->dtype = dtype;
    return Tensor(std::move(impl));
  }
  const Tensor tensor = empty(entry.shape, dtype);
  if (entry.end > entry.begin) std::memcpy(bytes_of(tensor), from, entry.end - entry.begin);
  return tensor;
}

/// The entry's tensor; `data` is where the file's data begin.
Tensor make_tensor(const Entry& entry, const std::shared_ptr<const Mapping>& file,
                   std::byte* data) {
  if (entry.scales) {
    const Tensor matrix = unconverted(entry, int8, file, data);
    matrix.impl().scales = unconverted(*entry.scales, bfloat16, file, data);
    return matrix;
  }
  if (!entry.type->convert) return unconverted(entry, entry.type->dtype, file, data);
  const Tensor tensor = empty(entry.shape, entry.type->dtype);
  entry.type->convert(data + entry.begin, tensor);
  return tensor;
}

/// Finds the int8 matrices and links them to their scales.
void link_scales(std::vector<Entry>& entries) {
  auto is = [](const Entry& entry, std::string_view type) { return entry.type->name == type; };
  std::map<std::string, Entry*> by_name;
  for (Entry& entry : entries) by_name.emplace(entry.name, &entry);
  for (Entry& entry : entries) {
    const auto found = by_name.find(entry.name + scales_suffix);
    if (found == by_name.end() || !is(entry, "I8") || !is(*found->second, "BF16")) continue;
    if (entry.shape.size() != 2) continue;
    Entry& scales = *found->second;
    if (!(scales.shape == Shape{entry.shape[0], ceil_div(entry.shape[1], kernel::scale_block)}))
      continue;
    entry.scales = &scales;
    scales.are_scales = true;
  }
}

SafetensorsFile read_safetensors(const std::shared_ptr<const Mapping>& file) {
  const std::string_view text = read_header(*file);
  json header = parse_json("the header", std::string(text));
  SafetensorsFile result;
  result.metadata = parse_metadata(header);
  const std::optional<std::string> expected = take_checksum(header, result.metadata);
  Checksum checksum = expected ? checksum_of(header) : Checksum();
  std::byte* data = file->data + 8 + text.size();
  std::vector<Entry> entries = parse_entries(header, file->bytes - 8 - text.size());
  link_scales(entries);
  for (const Entry& entry : entries) {
    if (expected) checksum.add(data + entry.begin, entry.end - entry.begin);
    if (entry.are_scales) continue;
    naming("tensor " + shown(entry.name),
           [&] { result.tensors.emplace_back(entry.name, make_tensor(entry, file, data)); });
  }
  check(!expected || *expected == checksum.digits(), "the content does not match its checksum ",
        shown(expected.value_or("")),
        ": the file is damaged, or was changed by a program that kept ", checksum_key);
  return result;
}

/// Creates the header for the tensors in this order, without the checksum.
json make_header(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  json header = {{metadata_key, metadata}};
  header[metadata_key][format_key] = "1";
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t begin = offset;
    offset += tensor.numel() * size_of(tensor.dtype());
    header[name] = {{"dtype", stored_name(tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, offset}}};
  }
  return header;
}

/// The bytes before the data: the header's length and the header, padded so that the data are
/// aligned to 64 bytes.
std::string opening(json& header, const std::string& checksum) {
  header[metadata_key][checksum_key] = checksum;
  std::string text = header.dump();
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  check(text.size() <= max_header_bytes, "save_safetensors: a header of ", text.size(),
        " bytes is longer than the ", max_header_bytes, " allowed");
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<uint64_t>(text.size()));
  return std::string(length.begin(), length.end()) + text;
}

void check_names(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) fail("save_safetensors: tensor ", shown(name), " is undefined");
    if (tensor.dtype() == int8 && !tensor.impl().scales.defined())
      fail("save_safetensors: ", shown(name), " is a view of an int8 matrix; save the whole one");
    if (is_compressed(tensor.dtype()) && !tensor.is_contiguous())
      fail("save_safetensors: ", shown(name), ": expected a contiguous ", tensor.dtype(),
           " tensor");
    if (name == metadata_key) fail("save_safetensors: a tensor can't be named ", shown(name));
    if (!names.insert(name).second) fail("save_safetensors: two tensors are named ", shown(name));
  }
  for (const char* key : {checksum_key, format_key})
    check(!metadata.contains(key), "save_safetensors: the metadata can't hold ", shown(key));
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  NamedTensors ordered = tensors;
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined() && tensor.dtype() == int8)
      ordered.emplace_back(name + scales_suffix, tensor.impl().scales);
  check_names(ordered, metadata);
  // Large elements first, so that each tensor's data is aligned to its element size, for readers
  // that map the file.
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  json header = make_header(ordered, metadata);
  Checksum checksum;
  std::string start;
  try {
    checksum = checksum_of(header);
    start = opening(header, checksum.digits());
  } catch (const json::exception&) {
    fail("save_safetensors: names and metadata must be UTF-8");
  }
  replace_file("save_safetensors", path, [&](File& file) {
    file.write(start.data(), start.size());
    for (const auto& [name, tensor] : ordered) {
      const Tensor t = tensor.detach().contiguous();
      const size_t bytes = static_cast<size_t>(t.numel() * size_of(t.dtype()));
      for (size_t at = 0; at < bytes; at += block_bytes) {
        const size_t n = std::min(block_bytes, bytes - at);
        checksum.add(bytes_of(t) + at, n);
        file.write(bytes_of(t) + at, n);
      }
    }
    // The checksum is known only now: write the header again.
    start = opening(header, checksum.digits());
    file.rewind();
    file.write(start.data(), start.size());
  });
}

SafetensorsFile load_safetensors(const std::string& path) {
  return naming("load_safetensors: " + path, [&] {
    File file("", path, O_RDONLY | O_NONBLOCK);  // rejects a pipe instead of waiting for it
    return read_safetensors(std::make_shared<const Mapping>(file));
  });
}

}  // namespace gradus
