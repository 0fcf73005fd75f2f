#include "examples/pictures/tiles.h"

#include <algorithm>

#include "examples/pictures/heat_map.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/images/png.h"

namespace gradus {

using core::check;

void check_tiles(const Tiles& tiles) {
  const Tensor& x = tiles.images;
  check(x.defined() && x.rank() == 4 && x.numel() > 0 && (x.size(1) == 1 || x.size(1) == 3),
        "tiles: expected images (N, 1 or 3, H, W), got ", x.defined() ? x.shape() : Shape{});
  check(tiles.across > 0, "tiles: expected across > 0, got ", tiles.across);
  check(tiles.headings.empty() || std::ssize(tiles.headings) == tiles.across,
        "tiles: ", tiles.headings.size(), " headings for ", tiles.across, " columns");
  for (const TileLine& line : tiles.lines)
    check(std::ssize(line.texts) == x.size(0), "tiles: ", line.texts.size(), " texts for ",
          x.size(0), " images");
}

TileLayout layout_of(const Tiles& tiles) {
  constexpr int64_t letter = 7, gap = 6;  // pixels per character; between images
  const int64_t n = tiles.images.size(0), height = tiles.images.size(2);
  const auto columns = [](const std::string& text) { return columns_of(visible(text, false)); };
  int64_t longest = 0, name = 0;
  for (const std::string& text : tiles.headings) longest = std::max(longest, columns(text));
  for (const TileLine& line : tiles.lines) {
    name = std::max(name, columns(line.name));
    for (const std::string& text : line.texts) longest = std::max(longest, columns(text));
  }
  TileLayout l;
  l.across = tiles.across;
  l.scale = std::max<int64_t>(1, 96 / height);
  l.image_width = tiles.images.size(3) * l.scale, l.image_height = height * l.scale;
  const int64_t column = std::max(l.image_width, std::min<int64_t>(longest * letter, 150));
  l.most = column / letter;
  l.names = gap + name * letter;
  l.first_left = l.names + gap + (column - l.image_width) / 2;
  l.first_top =
      gap + (tiles.title.empty() ? 0 : 2 * l.line) + (tiles.headings.empty() ? 0 : l.line);
  l.step_right = column + gap;
  l.step_down = l.image_height + gap + std::ssize(tiles.lines) * l.line;
  l.width = std::max(l.names + gap + std::min(n, l.across) * l.step_right,
                     columns(tiles.title) * letter + 2 * gap);
  l.height = l.first_top + (n + l.across - 1) / l.across * l.step_down;
  return l;
}

void write_without_words(const Tiles& tiles) {
  models::write_png(tiles.path,
                    models::image_grid(tiles.images, tiles.across, layout_of(tiles).scale));
}

}  // namespace gradus
