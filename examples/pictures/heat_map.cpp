#include "examples/pictures/heat_map.h"

#include <cmath>
#include <cstdio>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus {

using core::check;

// ---- what is drawn ----

HeatMap heat_map(std::string path, std::string title, Panel panel) {
  HeatMap map{.path = std::move(path), .title = std::move(title)};
  map.panels = {std::move(panel)};
  return map;
}

Tensor tiled(const Tensor& images, int64_t columns) {
  const int64_t height = images.size(1), width = images.size(2);
  return images.reshape({-1, columns, height, width})
      .permute({0, 2, 1, 3})
      .reshape({-1, columns * width});
}

HeatMap attention_grid(std::string path, std::string title, const Tensor& weights,
                       const std::vector<std::string>& queries,
                       const std::vector<std::string>& keys) {
  check(weights.defined() && weights.rank() == 4 && weights.numel() > 0,
        "attention_grid: expected weights (layers, heads, Tq, Tk), got ",
        weights.defined() ? weights.shape() : Shape{});
  HeatMap map{.path = std::move(path),
              .title = std::move(title),
              .x_label = "keys",
              .y_label = "queries",
              .across = weights.size(1)};
  for (int64_t layer = 0; layer < weights.size(0); ++layer)
    for (int64_t head = 0; head < weights.size(1); ++head)
      map.panels.push_back(
          {"layer " + std::to_string(layer + 1) + ", head " + std::to_string(head + 1),
           weights[layer][head], queries, keys});
  check_heat_map(map);
  return map;
}

HeatMap alignment(std::string path, std::string title, const Tensor& weights,
                  const std::vector<std::string>& source, const std::vector<std::string>& target) {
  HeatMap map = heat_map(std::move(path), std::move(title), {"", weights, target, source});
  map.names_on_top = true;
  map.x_label = "source tokens", map.y_label = "written tokens";
  check_heat_map(map);
  return map;
}

void check_heat_map(const HeatMap& map) {
  check(!map.panels.empty() && map.across > 0, "heat map: expected panels and across > 0, got ",
        map.panels.size(), " and ", map.across);
  check(!map.largest || (*map.largest > 0 && std::isfinite(*map.largest)),
        "heat map: expected a largest number > 0, got ", map.largest.value_or(0));
  for (const Panel& panel : map.panels) {
    const Tensor& x = panel.values;
    check(x.defined() && x.rank() == 2 && x.numel() > 0 && is_floating(x.dtype()),
          "heat map: expected a floating matrix that is not empty, got ",
          x.defined() ? x.shape() : Shape{});
    check(panel.rows.empty() || std::ssize(panel.rows) == x.size(0),
          "heat map: ", panel.rows.size(), " names for ", x.size(0), " rows");
    check(panel.columns.empty() || std::ssize(panel.columns) == x.size(1),
          "heat map: ", panel.columns.size(), " names for ", x.size(1), " columns");
  }
}

// ---- labels ----

namespace {

/// True if the character is invisible or changes the text's direction: control characters from 0x80
/// on, the soft hyphen, spaces other than U+0020, joiners, direction marks, the byte order mark,
/// and characters that no font has.
bool is_invisible(char32_t c) {
  return (c >= 0x7f && c <= 0xa0) || c == 0xad || c == 0x61c || c == 0x1680 || c == 0x180e ||
         (c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
         (c >= 0x205f && c <= 0x206f) || c == 0x3000 || (c >= 0xe000 && c <= 0xf8ff) ||
         (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) ||
         (c & 0xfffe) == 0xfffe || c >= 0xe0000;
}

std::string in_hex(const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string visible(const std::string& token, bool spaces) {
  if (token.empty()) return spaces ? "∅" : "";
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const size_t start = at;
    char32_t c = 0;
    if (!models::internal::read_code_point(token, at, c)) {
      result += in_hex("<%02X>", static_cast<unsigned char>(token[start]));
      at = start + 1;
    } else if (c == ' ' && !spaces) {
      result += ' ';
    } else if (c < 0x20 || c == ' ') {
      // U+2400 + c is the symbol for the control character c.
      models::internal::append_utf8(result, c == ' '    ? U'␣'
                                            : c == '\n' ? U'↵'
                                            : c == '\t' ? U'⇥'
                                                        : 0x2400 + c);
    } else if (is_invisible(c)) {
      result += in_hex("<U+%04X>", c);
    } else {
      result.append(token, start, at - start);
    }
  }
  return result;
}

int64_t columns_of(const std::string& visible_text) {
  int64_t columns = 0;
  char32_t c = 0;
  for (size_t at = 0; at < visible_text.size();) {
    models::internal::read_code_point(visible_text, at, c);
    columns += (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xd7a3) ||
                       (c >= 0xf900 && c <= 0xfaff) || (c >= 0xff00 && c <= 0xff60) || c >= 0x1f000
                   ? 2
                   : 1;
  }
  return columns;
}

// ---- as a table ----

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

namespace {

std::string name_of(const std::vector<std::string>& names, int64_t i) {
  return names.empty() ? std::to_string(i) : csv_field(visible(names[static_cast<size_t>(i)]));
}

/// The values as text, each after a comma.
std::vector<std::string> written(const Tensor& values) {
  std::vector<std::string> result;
  for (const double value : values.to_vector<double>()) {
    char number[40];
    std::snprintf(number, sizeof number, ",%.9g", value);
    result.push_back(number);
  }
  return result;
}

std::string as_table(const Panel& panel) {
  const int64_t rows = panel.values.size(0), columns = panel.values.size(1);
  const std::vector<std::string> numbers = written(panel.values);
  std::string text;
  for (int64_t j = 0; j < columns; ++j) text += ',' + name_of(panel.columns, j);
  for (int64_t i = 0; i < rows; ++i) {
    text += '\n' + name_of(panel.rows, i);
    for (int64_t j = 0; j < columns; ++j) text += numbers[static_cast<size_t>(i * columns + j)];
  }
  return text + '\n';
}

std::string as_lines(const Panel& panel) {
  const int64_t columns = panel.values.size(1);
  const std::vector<std::string> numbers = written(panel.values);
  const std::string title = csv_field(visible(panel.title, false)) + ',';
  std::string text;
  for (int64_t i = 0; i < std::ssize(numbers); ++i)
    text += title + name_of(panel.rows, i / columns) + ',' + name_of(panel.columns, i % columns) +
            numbers[static_cast<size_t>(i)] + '\n';
  return text;
}

}  // namespace

void write_csv(const std::string& path, const HeatMap& map) {
  check_heat_map(map);
  std::string text = "panel,row,column,value\n";
  for (const Panel& panel : map.panels) text += as_lines(panel);
  write_file_atomically(path, map.panels.size() == 1 ? as_table(map.panels[0]) : text);
}

}  // namespace gradus
