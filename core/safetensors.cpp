#include "gradus/core/safetensors.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace gradus {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian numbers");

constexpr uint64_t max_header_bytes = 100'000'000;
constexpr char metadata_key[] = "__metadata__";

char* bytes_of(const Tensor& t) {
  return dispatch_any(t.dtype(), [&](auto tag) {
    return reinterpret_cast<char*>(t.data<typename decltype(tag)::type>());
  });
}

// ---- element types ----

float float_from_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, fraction = h & 0x3ffu;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  if (exponent == 0) {  // zero and subnormal numbers: fraction 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float float_from_bfloat(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

int64_t int64_from_unsigned(uint64_t u) {
  check(u <= INT64_MAX, "value ", u, " does not fit into int64");
  return static_cast<int64_t>(u);
}

/// Reads t's elements, stored as From, a piece at a time.
template <class From, class To, class Convert>
void read_converted(File& file, const Tensor& t, Convert convert) {
  std::vector<From> piece(16384);
  To* to = t.data<To>();
  for (int64_t left = t.numel(); left > 0;) {
    const size_t n = static_cast<size_t>(std::min(left, static_cast<int64_t>(piece.size())));
    file.read_exactly(piece.data(), n * sizeof(From));
    to = std::transform(piece.data(), piece.data() + n, to, convert);
    left -= static_cast<int64_t>(n);
  }
}

template <class From>
void read_integers(File& file, const Tensor& t) {
  read_converted<From, int64_t>(file, t, [](From x) { return static_cast<int64_t>(x); });
}

void read_as_is(File& file, const Tensor& t) {
  file.read_exactly(bytes_of(t), static_cast<size_t>(t.numel() * size_of(t.dtype())));
}

/// How one of the format's element types is stored, and how it becomes one of ours.
struct StoredType {
  const char* name;
  uint64_t bytes;
  Dtype dtype;
  void (*read)(File&, const Tensor&);
};

const StoredType stored_types[] = {
    {"F32", 4, float32, read_as_is},
    {"F64", 8, float64, read_as_is},
    {"I64", 8, int64, read_as_is},
    {"BOOL", 1, boolean,
     [](File& f, const Tensor& t) {
       read_converted<uint8_t, bool>(f, t, [](uint8_t x) { return x != 0; });
     }},
    {"F16", 2, float32,
     [](File& f, const Tensor& t) { read_converted<uint16_t, float>(f, t, float_from_half); }},
    {"BF16", 2, float32,
     [](File& f, const Tensor& t) { read_converted<uint16_t, float>(f, t, float_from_bfloat); }},
    {"I32", 4, int64, read_integers<int32_t>},
    {"I16", 2, int64, read_integers<int16_t>},
    {"I8", 1, int64, read_integers<int8_t>},
    {"U32", 4, int64, read_integers<uint32_t>},
    {"U16", 2, int64, read_integers<uint16_t>},
    {"U8", 1, int64, read_integers<uint8_t>},
    {"U64", 8, int64,
     [](File& f, const Tensor& t) {
       read_converted<uint64_t, int64_t>(f, t, int64_from_unsigned);
     }},
};

const char* stored_name(Dtype dtype) {
  return std::find_if(std::begin(stored_types), std::end(stored_types),
                      [&](const StoredType& type) { return type.dtype == dtype; })
      ->name;
}

// ---- the header ----

/// A name as messages show it: in quotes, one line, not endless.
std::string quoted(const std::string& name) {
  return json(name.substr(0, 200)).dump(-1, ' ', true, json::error_handler_t::replace);
}

/// One tensor as the header describes it: bytes [begin, end) of the data.
struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

/// JSON as text to a value. Refuses a name given twice, which JSON leaves open, and deep nesting.
json parse_header(const std::string& text) {
  check(!text.empty() && text.front() == '{', "the header is not a JSON object");
  check(text.find('\0') == std::string::npos, "the header holds a zero byte");
  std::vector<std::set<std::string>> names;  // those seen in each object that is open
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    check(depth < 4, "the header is nested too deep");
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key)
      check(names.back().insert(value.get<std::string>()).second, "the header names ",
            quoted(value.get<std::string>()), " twice");
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& e) {
    fail("the header is not JSON at its byte ", e.byte);
  } catch (const json::exception&) {
    fail("the header holds a number out of range");
  }
}

/// Throws Error unless value[key] is an array of whole numbers from 0 to 2^63 - 1.
std::vector<int64_t> whole_numbers(const json& value, const char* key) {
  const auto found = value.find(key);
  check(found != value.end() && found->is_array(), "expected an array '", key, "'");
  std::vector<int64_t> numbers;
  for (const json& number : *found) {
    check(number.is_number_unsigned() && number.get<uint64_t>() <= INT64_MAX, key,
          ": expected whole numbers from 0 to 2^63 - 1, got ", number);
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

Entry parse_entry(const std::string& name, const json& value, uint64_t data_bytes) {
  check(value.is_object(), "expected an object");
  Entry entry;
  entry.name = name;
  const auto dtype = value.find("dtype");
  check(dtype != value.end() && dtype->is_string(), "expected a string 'dtype'");
  for (const StoredType& type : stored_types)
    if (dtype->get<std::string>() == type.name) entry.type = &type;
  check(entry.type, "unknown dtype ", quoted(dtype->get<std::string>()));

  const std::vector<int64_t> sizes = whole_numbers(value, "shape");
  check(sizes.size() <= max_rank, "expected at most ", max_rank, " axes, got ", sizes.size());
  entry.shape = sizes;
  // Strides are products of sizes, so these must not overflow even where another size is 0; nor may
  // the bytes in memory, of which an element has at most 8.
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
  const uint64_t wanted = static_cast<uint64_t>(entry.shape.numel()) * entry.type->bytes;
  check(entry.end - entry.begin == wanted, "shape ", entry.shape, " of ", entry.type->name,
        " takes ", wanted, " bytes, data_offsets ", entry.begin, " to ", entry.end, " give ",
        entry.end - entry.begin);
  return entry;
}

/// The tensors in the order of their data, which they must cover without overlap or gap.
std::vector<Entry> parse_entries(const json& header, uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == metadata_key) continue;
    try {
      entries.push_back(parse_entry(name, value, data_bytes));
    } catch (const Error& e) {
      fail("tensor ", quoted(name), ": ", e.what());
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    check(entry.begin >= covered, "tensor ", quoted(entry.name), " overlaps another at byte ",
          entry.begin, " of the data");
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
    check(value.is_string(), metadata_key, ": expected a string for ", quoted(key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

SafetensorsFile read_safetensors(File& file) {
  const uint64_t file_bytes = file.size();
  check(file_bytes >= 8, "expected at least 8 bytes, got ", file_bytes);
  uint64_t header_bytes = 0;
  file.read_exactly(&header_bytes, 8);
  check(header_bytes <= max_header_bytes, "a header of ", header_bytes,
        " bytes is longer than the ", max_header_bytes, " allowed");
  check(header_bytes <= file_bytes - 8, "expected a header of ", header_bytes, " bytes, but only ",
        file_bytes - 8, " follow");
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read_exactly(text.data(), text.size());

  const json header = parse_header(text);
  SafetensorsFile result;
  result.metadata = parse_metadata(header);
  for (const Entry& entry : parse_entries(header, file_bytes - 8 - header_bytes)) {
    const Tensor tensor = empty(entry.shape, entry.type->dtype);
    try {
      entry.type->read(file, tensor);
    } catch (const Error& e) {
      fail("tensor ", quoted(entry.name), ": ", e.what());
    }
    result.tensors.emplace_back(entry.name, tensor);
  }
  return result;
}

/// The header of a file that holds the tensors in this order, padded to a multiple of 8 bytes.
std::string make_header(const NamedTensors& tensors,
                        const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t begin = offset;
    offset += tensor.numel() * size_of(tensor.dtype());
    header[name] = {{"dtype", stored_name(tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, offset}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    fail("save_safetensors: names and metadata must be UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  check(text.size() <= max_header_bytes, "save_safetensors: a header of ", text.size(),
        " bytes is longer than the ", max_header_bytes, " allowed");
  return text;
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), "save_safetensors: tensor ", quoted(name), " is undefined");
    check(name != metadata_key, "save_safetensors: a tensor can't be named ", quoted(name));
    check(names.insert(name).second, "save_safetensors: two tensors are named ", quoted(name));
  }
  // Large elements first, so that each tensor's data is aligned to its element size: readers that
  // map the file into memory want it.
  NamedTensors ordered = tensors;
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  const std::string header = make_header(ordered, metadata);
  const uint64_t header_bytes = header.size();
  replace_file("save_safetensors", path, [&](File& file) {
    file.write(&header_bytes, 8);
    file.write(header.data(), header.size());
    for (const auto& [name, tensor] : ordered) {
      const Tensor t = tensor.detach().contiguous();
      file.write(bytes_of(t), static_cast<size_t>(t.numel() * size_of(t.dtype())));
    }
  });
}

SafetensorsFile load_safetensors(const std::string& path) {
  try {
    File file("", path, O_RDONLY);
    return read_safetensors(file);
  } catch (const Error& e) {
    fail("load_safetensors: ", path, ": ", e.what());
  }
}

}  // namespace gradus
