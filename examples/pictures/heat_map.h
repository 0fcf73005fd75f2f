#pragma once
// Heat maps of matrices: the data (plot.h draws it), tokens as labels, and the same values as a
// table.

#include <optional>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A matrix with names for its rows and columns; without names they are numbered from 0.
struct Panel {
  std::string title = {};
  Tensor values = {};  ///< (rows, columns), floating
  std::vector<std::string> rows = {}, columns = {};
};

enum class Shades {
  grey,      ///< from white at 0 to black at HeatMap::largest
  diverging  ///< from blue at -largest through white at 0 to red at largest
};

/// Matrices side by side in one picture, on one scale.
struct HeatMap {
  std::string path = {}, title = {}, x_label = {}, y_label = {};
  std::vector<Panel> panels = {};
  int64_t across = 1;  ///< panels in a row of the picture
  Shades shades = Shades::grey;
  std::optional<double> largest = {};  ///< default: 1 if grey, else the largest |value|
  bool names_on_top = false;           ///< column names above instead of below
  bool numbered = true;                ///< false: rows and columns without names show no numbers
};

/// Images (N, H, W) as one matrix, `columns` of them side by side; N is a multiple of `columns`.
Tensor tiled(const Tensor& images, int64_t columns);

/// A heat map of one matrix.
HeatMap heat_map(std::string path, std::string title, Panel panel);
/// One panel per layer and head, one row of panels per layer: weights (layers, heads, Tq, Tk).
/// Throws Error unless the numbers of names are Tq and Tk.
HeatMap attention_grid(std::string path, std::string title, const Tensor& weights,
                       const std::vector<std::string>& queries,
                       const std::vector<std::string>& keys);
/// The alignment of target tokens (rows) with source tokens (columns, named on top): weights
/// (target, source). Bahdanau et al. 2015, arXiv 1409.0473, figure 3.
HeatMap alignment(std::string path, std::string title, const Tensor& weights,
                  const std::vector<std::string>& source, const std::vector<std::string>& target);

/// Throws Error unless the options are valid and there is at least one panel, each a non-empty
/// matrix whose rows, and whose columns, have either no names or one name each.
void check_heat_map(const HeatMap& map);

/// Makes a token visible, in valid UTF-8 without control characters. A space becomes ␣, a line
/// break ↵, a tab ⇥, another character below U+0020 its symbol (␀), the empty token ∅, any other
/// invisible character its code (<U+200B>), a byte that is not UTF-8 its value (<E2>). If `spaces`
/// is false, for titles, spaces and the empty token stay as they are.
std::string visible(const std::string& token, bool spaces = true);
/// Width in terminal columns: two for each Chinese, Japanese or Korean character or emoji.
int64_t columns_of(const std::string& visible_text);

/// One field of a CSV file, quoted if necessary (RFC 4180).
std::string csv_field(const std::string& text);
/// Writes the values as a CSV file: one matrix as a table with its names; several as lines of
/// panel, row, column, value. Names are written as the picture shows them. Throws Error if that
/// fails.
void write_csv(const std::string& path, const HeatMap& map);

}  // namespace gradus
