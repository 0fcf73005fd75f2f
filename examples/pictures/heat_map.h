#pragma once
// Matrices as pictures of shades: what is drawn (plot.h draws it), how tokens are shown as labels,
// and the same numbers as a table.

#include <optional>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A matrix and the names of its rows and columns; without names they are numbered from 0.
struct Panel {
  std::string title = {};
  Tensor values = {};  ///< (rows, columns), floating
  std::vector<std::string> rows = {}, columns = {};
};

enum class Shades {
  grey,      ///< 0 white to `largest` black
  diverging  ///< -largest blue, 0 white, largest red
};

/// Matrices side by side in one picture, with one scale.
struct HeatMap {
  std::string path = {}, title = {}, x_label = {}, y_label = {};
  std::vector<Panel> panels = {};
  int64_t across = 1;  ///< panels in a row
  Shades shades = Shades::grey;
  std::optional<double> largest = {};  ///< default: grey 1, diverging the largest magnitude
  bool names_on_top = false;           ///< the columns' names, instead of below
};

/// A matrix of its own.
HeatMap heat_map(std::string path, std::string title, Panel panel);
/// The weights of all layers and heads, a panel each: weights (layers, heads, Tq, Tk), row by row a
/// layer. Throws Error if the names are not as many as queries and keys.
HeatMap attention_grid(std::string path, std::string title, const Tensor& weights,
                       const std::vector<std::string>& queries,
                       const std::vector<std::string>& keys);
/// Which source tokens each target token was made from, the source across on top: weights (target,
/// source). Bahdanau et al. 2015, arXiv 1409.0473, figure 3.
HeatMap alignment(std::string path, std::string title, const Tensor& weights,
                  const std::vector<std::string>& source, const std::vector<std::string>& target);

/// Throws Error unless there are panels, each a matrix that is not empty, with no names or as many
/// as rows and columns, and the numbers given make sense.
void check_heat_map(const HeatMap& map);

/// A token as people can see it, in valid UTF-8 without control characters: a space is ␣, a line
/// break ↵, a tab ⇥, the empty token ∅, what else is invisible <U+200B>, a byte that is not UTF-8
/// <E2>. Spaces stay where `spaces` is false: for titles.
std::string visible(const std::string& token, bool spaces = true);
/// How many columns of a terminal it takes: two for each Chinese, Japanese or Korean character.
int64_t columns_of(const std::string& visible_text);

/// One field of a CSV file, in quotes where it needs them (RFC 4180).
std::string csv_field(const std::string& text);
/// The numbers as a CSV file: one matrix as a table with its names around it; several as lines of
/// panel, row, column, value. Names as the picture shows them. Throws Error if it can't be written.
void write_csv(const std::string& path, const HeatMap& map);

}  // namespace gradus
