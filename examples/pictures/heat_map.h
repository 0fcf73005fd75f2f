#pragma once
// Heat maps of matrices: their data (plot.h draws them), labels for tokens, and export as CSV.

#include <optional>
#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A matrix with names for its rows and columns. Rows or columns without names are numbered from 0,
/// unless HeatMap::numbered is false.
struct Panel {
  std::string title = {};
  Tensor values = {};  ///< (rows, columns), floating
  std::vector<std::string> rows = {}, columns = {};
};

enum class Shades {
  grey,      ///< from white at 0 to black at HeatMap::largest
  diverging  ///< from blue at -HeatMap::largest through white at 0 to red at HeatMap::largest
};

/// Matrices side by side in one picture, with the same colour scale.
struct HeatMap {
  std::string path = {}, title = {}, x_label = {}, y_label = {};
  std::vector<Panel> panels = {};
  int64_t across = 1;  ///< number of panels in each row of the picture
  Shades shades = Shades::grey;
  /// The value that is drawn in black (Shades::grey) or red (Shades::diverging). The default for
  /// grey is 1. The default for diverging is the largest finite |value| of all panels, or 1 if that
  /// value is 0.
  std::optional<double> largest = {};
  bool names_on_top = false;  ///< write column names above the matrices instead of below them
  /// Whether rows and columns without names are numbered. With names_on_top, columns without names
  /// are always numbered.
  bool numbered = true;
};

/// Returns images (N, H, W) as one matrix (N / columns * H, columns * W) with `columns` images per
/// row. N must be a multiple of `columns`.
Tensor tiled(const Tensor& images, int64_t columns);

/// Returns a heat map of one matrix.
HeatMap heat_map(std::string path, std::string title, Panel panel);
/// Returns a heat map of weights (layers, heads, Tq, Tk) with one panel per layer and head, and one
/// row of panels per layer. `queries` is empty or contains Tq names, and `keys` is empty or
/// contains Tk names. Throws Error if `queries` or `keys` has another size, or if the weights are
/// empty, not floating or not of rank 4.
HeatMap attention_grid(std::string path, std::string title, const Tensor& weights,
                       const std::vector<std::string>& queries,
                       const std::vector<std::string>& keys);
/// Returns a heat map of the alignment of target tokens with source tokens: weights (target,
/// source). There is a row for each target token and a column for each source token, with the
/// source tokens written on top. Throws the errors of check_heat_map. Bahdanau et al. 2015, arXiv
/// 1409.0473, figure 3.
HeatMap alignment(std::string path, std::string title, const Tensor& weights,
                  const std::vector<std::string>& source, const std::vector<std::string>& target);

/// Throws Error if there is no panel, if `across` is below 1, or if `largest` is not finite and
/// positive. Also throws Error if a panel is empty or not a floating matrix, or if its rows or
/// columns have names but not one name each.
void check_heat_map(const HeatMap& map);

/// Returns the token in visible form: valid UTF-8 without control characters. A space becomes ␣, a
/// line break ↵, a tab ⇥, and the empty token ∅. Any other character below U+0020 becomes its
/// symbol (for example ␀). Most other invisible characters become their code (for example
/// `<U+200B>`), and a byte that is not UTF-8 becomes its value (for example `<E2>`). If `spaces` is
/// false, spaces and the empty token stay unchanged, as in titles.
std::string visible(const std::string& token, bool spaces = true);
/// Returns the width of the text in terminal columns. Characters of U+1100 to U+115F, U+2E80 to
/// U+D7A3, U+F900 to U+FAFF, U+FF00 to U+FF60 and from U+1F000 on count as two columns, all others
/// as one. The wide characters are mainly Chinese, Japanese, Korean and emoji.
int64_t columns_of(const std::string& visible_text);

/// Returns one field of a CSV file, quoted if necessary (RFC 4180).
std::string csv_field(const std::string& text);
/// Writes the values as a CSV file. A map of one panel becomes a table with the names of its rows
/// and columns. A map of several panels becomes one line "panel,row,column,value" per value. Names
/// are written as visible() returns them. Throws the errors of check_heat_map, and Error if writing
/// fails.
void write_csv(const std::string& path, const HeatMap& map);

}  // namespace gradus
