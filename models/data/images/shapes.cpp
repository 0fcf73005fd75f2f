#include "gradus/models/data/images/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

namespace {

enum Kind { circle, square, triangle, cross, diamond, kinds };
constexpr std::array<const char*, kinds> kind_names{"circle", "square", "triangle", "cross",
                                                    "diamond"};
struct Colour {
  const char* name;
  std::array<double, 3> rgb;
};
constexpr std::array<Colour, 7> colours{{{"red", {0.9, 0.12, 0.12}},
                                         {"green", {0.12, 0.75, 0.2}},
                                         {"blue", {0.15, 0.3, 0.95}},
                                         {"yellow", {0.95, 0.9, 0.15}},
                                         {"purple", {0.65, 0.2, 0.8}},
                                         {"cyan", {0.2, 0.85, 0.9}},
                                         {"white", {0.95, 0.95, 0.95}}}};
constexpr int64_t classes = kinds * std::ssize(colours);
constexpr std::array<const char*, 4> relations{"above", "below", "left of", "right of"};

/// A shape within the square of side 2 * radius centred at (x, y); y grows downwards.
struct Shape2D {
  int64_t id;  // class: kind * number of colours + colour
  double x = 0, y = 0, radius = 0;
};

Kind kind_of(const Shape2D& s) { return static_cast<Kind>(s.id / std::ssize(colours)); }
const Colour& colour_of(const Shape2D& s) {
  return colours[static_cast<size_t>(s.id % std::ssize(colours))];
}
std::string name_of_class(int64_t id) {
  return std::string(colour_of({id}).name) + ' ' + kind_names[kind_of({id})];
}

/// Whether a shape of radius 1 centred at the origin covers (x, y).
bool covers(Kind kind, double x, double y) {
  const double u = std::fabs(x), v = std::fabs(y);
  switch (kind) {
    case circle:
      return x * x + y * y <= 1;
    case square:
      return u <= 0.85 && v <= 0.85;
    case triangle:  // its apex is at the top
      return y <= 0.85 && u * 1.85 <= y + 1;
    case cross:
      return (u <= 0.32 && v <= 1) || (v <= 0.32 && u <= 1);
    default:
      return u + v <= 1;
  }
}

/// Content of a caption.
struct Scene {
  std::vector<Shape2D> shapes;  // in the order in which the caption names them
  size_t relation = 0;          // of the first to the second: an index into relations
};

std::string caption_of(const Scene& scene) {
  std::string text = "a " + name_of_class(scene.shapes[0].id);
  if (scene.shapes.size() == 1) return text;
  return text + ' ' + relations[scene.relation] + " a " + name_of_class(scene.shapes[1].id);
}

Scene draw_scene(const ShapesOptions& o, internal::Draws& draws) {
  const auto within = [&](double low, double high) { return low + (high - low) * draws.uniform(); };
  const auto size = static_cast<double>(o.size);
  Scene scene;
  const int64_t count = o.min_shapes + draws.below(o.max_shapes - o.min_shapes + 1);
  for (int64_t i = 0; i < count; ++i)
    scene.shapes.push_back({draws.below(classes), 0, 0, size * within(0.125, 0.2)});
  Shape2D& a = scene.shapes[0];
  if (count == 1) {
    a.x = within(a.radius + 1, size - 1 - a.radius);
    a.y = within(a.radius + 1, size - 1 - a.radius);
    return scene;
  }
  // b is of another class. Along one axis, the centres are `distance` apart, which leaves a pixel
  // between the shapes; along the other axis, at most half as far. a is the left or upper one until
  // the swap at the end.
  Shape2D& b = scene.shapes[1];
  b.id = (a.id + 1 + draws.below(classes - 1)) % classes;
  const double distance = within(a.radius + b.radius + 1.5, size - 2 - a.radius - b.radius);
  const double along = within(a.radius + 1, size - 1 - b.radius - distance);
  const double low = 1 + std::max(a.radius, b.radius), high = size - low;
  const double across = within(low, high);
  const double other =
      within(std::max(low, across - distance / 2), std::min(high, across + distance / 2));
  const bool upright = draws.below(2) == 0;
  a.x = along;
  a.y = across;
  b.x = along + distance;
  b.y = other;
  if (upright) {
    std::swap(a.x, a.y);
    std::swap(b.x, b.y);
  }
  scene.relation = upright ? 0 : 2;
  if (draws.below(2) == 1) {
    std::swap(a, b);
    ++scene.relation;
  }
  return scene;
}

/// Paints the picture, with edges antialiased by 4 x 4 samples per pixel.
void paint(const Scene& scene, const ShapesOptions& o, internal::Draws& draws, uint8_t* to) {
  const int64_t size = o.size, plane = size * size;
  std::vector<double> picture(static_cast<size_t>(3 * plane), 0.02 + 0.28 * draws.uniform());
  for (const Shape2D& s : scene.shapes) {
    const double shade = 0.9 + 0.1 * draws.uniform();
    const auto first = [](double edge) { return static_cast<int64_t>(std::floor(edge)); };
    for (int64_t y = first(s.y - s.radius); y <= first(s.y + s.radius); ++y)
      for (int64_t x = first(s.x - s.radius); x <= first(s.x + s.radius); ++x) {
        int inside = 0;
        for (int point = 0; point < 16; ++point)
          inside +=
              covers(kind_of(s), (static_cast<double>(x) + (point % 4 + 0.5) / 4 - s.x) / s.radius,
                     (static_cast<double>(y) + (point / 4 + 0.5) / 4 - s.y) / s.radius);
        for (int64_t c = 0; c < 3; ++c) {
          double& pixel = picture[static_cast<size_t>(c * plane + y * size + x)];
          const double ink = colour_of(s).rgb[static_cast<size_t>(c)] * shade;
          pixel += (ink - pixel) * inside / 16;
        }
      }
  }
  for (size_t k = 0; k < picture.size(); ++k) {
    const double value = picture[k] + o.noise * (2 * draws.uniform() - 1);
    to[k] = static_cast<uint8_t>(std::clamp(value, 0.0, 1.0) * 255 + 0.5);
  }
}

void check_options(const char* op, const ShapesOptions& o) {
  check(o.size >= 20 && o.size <= 1024, op, ": expected a size of 20 to 1024 pixels, got ", o.size);
  check(o.min_shapes >= 1 && o.min_shapes <= o.max_shapes && o.max_shapes <= 2, op,
        ": expected 1 or 2 shapes, got ", o.min_shapes, " to ", o.max_shapes);
  check(o.noise >= 0 && o.noise <= 1, op, ": expected noise in [0, 1], got ", o.noise);
}

constexpr uint64_t key_of_shapes = 0x1f83d9abfb41bd6bu;

}  // namespace

ShapeImages draw_shapes(int64_t first, int64_t n, const ShapesOptions& options) {
  check_options("draw_shapes", options);
  constexpr int64_t max_bytes = int64_t{1} << 34, last = int64_t{1} << 40;
  const int64_t bytes = 3 * options.size * options.size;
  check(first >= 0 && first <= last && n >= 0 && n <= max_bytes / bytes,
        "draw_shapes: expected a first picture in [0, 2^40] and 0 to ", max_bytes / bytes,
        " of them, got ", first, " and ", n);
  std::vector<uint8_t> pixels(static_cast<size_t>(n * bytes));
  std::vector<int64_t> labels(static_cast<size_t>(n));
  std::vector<std::string> captions(static_cast<size_t>(n)), names;
  parallel_for(n, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      internal::Draws draws = internal::row_draws({options.seed ^ key_of_shapes, 0}, first + i);
      const Scene scene = draw_scene(options, draws);
      paint(scene, options, draws, pixels.data() + i * bytes);
      labels[static_cast<size_t>(i)] = scene.shapes[0].id;
      captions[static_cast<size_t>(i)] = caption_of(scene);
    }
  });
  for (int64_t id = 0; id < classes; ++id) names.push_back(name_of_class(id));
  return {ImageData({n, 3, options.size, options.size}, std::move(pixels), std::move(labels),
                    std::move(names)),
          std::move(captions)};
}

std::optional<ShapeLook> shape_of_class(const std::string& name) {
  for (int64_t id = 0; id < classes; ++id)
    if (name_of_class(id) == name) return ShapeLook{kind_names[kind_of({id})], colour_of({id}).rgb};
  return {};
}

std::string swapped_caption(const std::string& caption) {
  for (size_t i = 0; i < relations.size(); ++i) {
    const std::string relation = std::string(" ") + relations[i] + ' ';
    const size_t at = caption.find(relation);
    if (at != std::string::npos)
      return caption.substr(at + relation.size()) + ' ' + relations[i ^ 1] + ' ' +
             caption.substr(0, at);
  }
  return caption;
}

std::vector<std::string> shape_captions(const ShapesOptions& options) {
  check_options("shape_captions", options);
  std::vector<std::string> captions;
  if (options.min_shapes == 1)
    for (int64_t a = 0; a < classes; ++a) captions.push_back(caption_of({{{a}}, 0}));
  if (options.max_shapes == 2)
    for (int64_t a = 0; a < classes; ++a)
      for (int64_t b = 0; b < classes; ++b)
        for (size_t relation = 0; relation < relations.size() && b != a; ++relation)
          captions.push_back(caption_of({{{a}, {b}}, relation}));
  return captions;
}

}  // namespace gradus::models
