#include "tests/random_programs/generate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/random_programs/ops.h"
#include "tests/random_programs/run.h"

namespace gradus::programs {

// ---- margins ----

double least(const Tensor& x) {
  double m = INFINITY;
  for (const double v : x.to_vector<double>()) m = std::min(m, v);
  return m;
}

double distance_from(const Tensor& x, double kink) { return least(abs(x - kink)); }
double distance_between(const Tensor& a, const Tensor& b) { return least(abs(a - b)); }

double distance_from_halves(const Tensor& x) {
  double m = INFINITY;
  for (const double v : x.to_vector<double>()) m = std::min(m, std::abs(v * 2 - std::round(v * 2)));
  return m / 2;
}

double gap(const Tensor& x, int64_t dim) {
  if (x.rank() == 0 || x.size(dim) < 2) return INFINITY;
  const Tensor sorted = sort(x, dim).values;
  return least(sorted.slice(dim, 1) - sorted.slice(dim, 0, -1));
}

const std::vector<Op>& all_ops() {
  static const std::vector<Op> ops = [] {
    std::vector<Op> all;
    for (auto some : {pointwise_ops, reduction_ops, shape_ops, index_ops, product_ops, norm_ops,
                      loss_ops, vision_ops, sequence_ops})
      for (Op& op : some()) all.push_back(std::move(op));
    return all;
  }();
  return ops;
}

int op_named(const std::string& name) {
  const auto& ops = all_ops();
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].name == name) return static_cast<int>(i);
  return -1;
}

/// No value of a program has more elements.
constexpr int64_t most_elements = 140000;
constexpr int64_t long_axis = 100;

// ---- arguments ----

Picker::Picker(Random& random_, Program& program, std::vector<Tensors>& values, Sizes sizes)
    : random(random_), program_(program), values_(values), sizes_(sizes) {}

int64_t Picker::size() {
  if (sizes_ == Sizes::mixed && random.chance(0.25)) return random.whole(30, 90);
  if (sizes_ == Sizes::split && random.chance(0.5) && !has_long_axis())
    return random.whole(long_axis, 400);
  return random.chance(0.25) ? 1 : random.whole(2, 4);
}

bool Picker::has_long_axis() const {
  for (size_t arg = 0; arg < step.args.size(); ++arg)
    for (const int64_t n : shape_of(static_cast<int>(arg)))
      if (n >= long_axis) return true;
  return false;
}

Shape Picker::shape(int low, int high) {
  Shape s;
  const int64_t rank = random.whole(low, high);
  for (int64_t d = 0; d < rank; ++d) s.push_back(random.chance(0.01) ? 0 : size());
  while (s.numel() > most_elements)
    for (int64_t& n : s) n = (n + 1) / 2;
  return s;
}

Shape Picker::shape_of(int arg) const {
  const Ref ref = step.args[static_cast<size_t>(arg)];
  return values_[static_cast<size_t>(ref.step)][static_cast<size_t>(ref.output)].shape();
}

int64_t Picker::axis(int rank) {
  const int64_t dim = random.whole(-rank, rank - 1);
  option(dim);
  return dim;
}

namespace {

bool is_in(const Tensor& x, Domain domain) {
  if (domain == Domain::any) return true;
  if (domain == Domain::distinct) return x.rank() == 0 || gap(x.flatten(), 0) > 0.01;
  if (domain == Domain::nonzero) return distance_from(x, 0) > 0.01;
  return least(x) > 0.12 && (domain != Domain::unit || least(-x) > -0.98);
}

}  // namespace

bool Picker::pick(const std::function<bool(const Tensor&)>& fits) {
  const auto n = static_cast<int64_t>(values_.size());
  for (int attempt = 0; attempt < 6 && n > 0; ++attempt) {
    // The newest values twice as often, so that graphs grow deep as well as wide.
    const int64_t at = random.chance(0.5) ? random.whole(n - std::min<int64_t>(n, 4), n - 1)
                                          : random.whole(0, n - 1);
    const Tensors& outputs = values_[static_cast<size_t>(at)];
    if (outputs.empty()) continue;
    const int64_t k = random.whole(0, static_cast<int64_t>(outputs.size()) - 1);
    if (!fits(outputs[static_cast<size_t>(k)])) continue;
    step.args.push_back({static_cast<int>(at), static_cast<int>(k)});
    return true;
  }
  return false;
}

Reals Picker::draw(const Shape& shape, Domain domain) {
  Reals values(static_cast<size_t>(shape.numel()));
  for (double& v : values) switch (domain) {
      case Domain::positive:
        v = random.real(0.25, 2);
        break;
      case Domain::unit:
        v = random.real(0.15, 0.95);
        break;
      case Domain::nonzero:
        v = random.real(0.05, 1.5) * (random.chance(0.5) ? 1 : -1);
        break;
      default:
        v = random.real(-1.5, 1.5);
    }
  if (domain == Domain::distinct) {
    const double step = 3.0 / static_cast<double>(std::max<size_t>(values.size(), 1));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::round((static_cast<double>(i) * step - 1.5) * 1024) / 1024;
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1],
                values[static_cast<size_t>(random.whole(0, static_cast<int64_t>(i) - 1))]);
  }
  return values;
}

void Picker::leaf(Leaf leaf) {
  if (is_floating(leaf.dtype)) {
    leaf.wants_grad = random.chance(0.85);
    leaf.has_grad = leaf.wants_grad && random.chance(0.15);
  }
  Step made;
  made.leaf = std::move(leaf);
  values_.push_back({leaf_tensor(made.leaf, float64, Layout::contiguous)});
  program_.steps.push_back(std::move(made));
  step.args.push_back({static_cast<int>(program_.steps.size()) - 1, 0});
}

void Picker::like(const Shape& shape, Domain domain) {
  core::check(shape.numel() <= most_elements, "an argument of shape ", shape, " is too large");
  auto fits = [&](const Tensor& x) {
    return x.dtype() == float64 && x.shape() == shape && is_in(x, domain);
  };
  if (pick(fits)) return;
  Leaf made{.shape = shape, .values = draw(shape, domain)};
  const int64_t kind = random.whole(0, 5);
  if (kind == 0) made.layout = Layout::strided;
  if (kind == 1 && shape.size() > 1) made.layout = Layout::transposed;
  if (kind == 2 && shape.size() > 0 && domain != Domain::distinct && shape.numel() > 0) {
    made.layout = Layout::expanded;
    made.axis = random.whole(0, shape.size() - 1);
    int64_t inner = 1;
    const auto axis = static_cast<int>(made.axis);
    for (int d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    for (size_t e = 0; e < made.values.size(); ++e) {
      const auto at = static_cast<int64_t>(e);
      made.values[e] = made.values[static_cast<size_t>(at - at / inner % shape[axis] * inner)];
    }
  }
  leaf(std::move(made));
}

Shape Picker::any(int low, int high, Domain domain) {
  auto fits = [&](const Tensor& x) {
    return x.dtype() == float64 && x.rank() >= low && x.rank() <= high && is_in(x, domain);
  };
  if (!pick(fits)) like(shape(low, high), domain);
  return shape_of(static_cast<int>(step.args.size()) - 1);
}

void Picker::beside(const Shape& shape, Domain domain) {
  Shape other = shape;
  for (int64_t cut = random.chance(0.3) ? random.whole(0, shape.size()) : 0; cut > 0; --cut)
    other.erase(0);
  for (int64_t& n : other)
    if (random.chance(0.15)) n = 1;
  if (other == shape && shape.size() < 4 && random.chance(0.1)) other.insert(0, size());
  like(other, domain);
}

void Picker::mask(const Shape& shape) {
  if (random.chance(0.5) &&
      pick([&](const Tensor& x) { return x.dtype() == boolean && x.shape() == shape; }))
    return;
  Leaf made{.dtype = boolean, .shape = shape, .values = Reals(static_cast<size_t>(shape.numel()))};
  for (double& v : made.values) v = random.chance(0.6);
  leaf(std::move(made));
}

Shape Picker::some_bool() {
  if (!pick([](const Tensor& x) { return x.dtype() == boolean; })) mask(shape(1, 3));
  return shape_of(static_cast<int>(step.args.size()) - 1);
}

void Picker::constant(const Shape& shape, bool signs) {
  Leaf made{.shape = shape, .values = draw(shape, Domain::any)};
  for (double& v : made.values)
    if (signs) v = v < 0 ? -1 : 1;
  leaf(std::move(made));
  Leaf& added = program_.steps.back().leaf;
  added.wants_grad = added.has_grad = false;
}

void Picker::indices(const Shape& shape, int64_t n) {
  Leaf made{.dtype = int64, .shape = shape, .values = Reals(static_cast<size_t>(shape.numel()))};
  if (n == 0 && !made.values.empty()) failed = true;
  for (double& v : made.values) v = n == 0 ? 0 : static_cast<double>(random.whole(0, n - 1));
  leaf(std::move(made));
}

// ---- programs ----

namespace {

std::vector<Drawn>& counts() {
  static std::vector<Drawn> all(all_ops().size());
  return all;
}

bool is_moderate(const Tensors& outputs, Sizes sizes) {
  for (const Tensor& y : outputs) {
    if (y.numel() > (sizes == Sizes::split ? most_elements : 20000)) return false;
    if (!is_floating(y.dtype())) continue;
    const double most = sizes == Sizes::split ? 1000 : 50;  // a sum of 140,000 is not small
    for (const double v : y.to_vector<double>())
      if (!(std::abs(v) <= most)) return false;
  }
  return true;
}

/// Draws a step of op `op` and evaluates it. Leaves the program unchanged if it does not fit.
bool add_step(Random& random, Program& program, std::vector<Tensors>& values, int op, Sizes sizes) {
  const size_t before = program.steps.size();
  Picker picker(random, program, values, sizes);
  const Op& drawn = all_ops()[static_cast<size_t>(op)];
  Drawn& count = counts()[static_cast<size_t>(op)];
  Tensors outputs;
  bool fits = false;
  try {
    drawn.propose(picker);
    if (!picker.failed) {
      Step& step = picker.step;
      if (random.chance(0.06)) step.island = static_cast<Island>(random.whole(1, 3));
      std::optional<EvalMode> evaluating;  // the only mode that changes values
      if (step.island == Island::eval) evaluating.emplace();
      Tensors x;
      for (const Ref ref : step.args)
        x.push_back(values[static_cast<size_t>(ref.step)][static_cast<size_t>(ref.output)]);
      outputs = drawn.apply(x, step.ints, step.reals);
      fits = is_moderate(outputs, sizes) &&
             !(drawn.margin && drawn.margin(x, step.ints, step.reals) < 0.004);
    }
    count.unfit += !fits;
  } catch (const Error& e) {
    ++count.refused;
    count.message = e.what();
  }
  if (!fits) {
    program.steps.resize(before);
    values.resize(before);
    return false;
  }
  ++count.kept;
  picker.step.op = op;
  program.steps.push_back(std::move(picker.step));
  values.push_back(std::move(outputs));
  return true;
}

/// Every floating value that no step uses, and some that steps use, are outputs.
void choose_outputs(Random& random, Program& program, const std::vector<Tensors>& values) {
  std::vector<std::vector<bool>> used(values.size());
  for (size_t s = 0; s < values.size(); ++s) used[s].resize(values[s].size());
  for (const Step& step : program.steps)
    for (const Ref ref : step.args)
      used[static_cast<size_t>(ref.step)][static_cast<size_t>(ref.output)] = true;
  for (size_t s = 0; s < values.size(); ++s)
    for (size_t k = 0; k < values[s].size(); ++k) {
      const bool takes = used[s][k] ? random.chance(0.1) : random.chance(0.9);
      if (takes && program.steps[s].op >= 0 && is_floating(values[s][k].dtype()))
        program.outputs.push_back({static_cast<int>(s), static_cast<int>(k)});
    }
}

}  // namespace

const std::vector<Drawn>& drawn() { return counts(); }

Program generate(uint64_t seed) {
  Random random(seed * 2 + 1);
  Program program{.seed = seed};
  std::vector<Tensors> values;
  const NoGrad no_grad;
  program.split = seed % 200 == 100;  // rarely, since they take long
  const bool large = random.chance(0.01);
  const Sizes sizes = program.split ? Sizes::split : large ? Sizes::mixed : Sizes::small;
  // Mostly short ones: they find the same faults in less time.
  int64_t count = random.whole(3, 12);
  if (random.chance(0.1) && !program.split) count = random.whole(12, 60);
  const auto ops = static_cast<int64_t>(all_ops().size());
  manual_seed(seed);  // dropout then draws what it draws when the program runs
  for (int64_t made = 0, tries = 0; made < count && tries < 5 * count; ++tries) {
    const RandomKey before = default_generator().state();
    if (!add_step(random, program, values, static_cast<int>(random.whole(0, ops - 1)), sizes)) {
      default_generator().set_state(before);
      continue;
    }
    ++made;
    Step& step = program.steps.back();
    const bool floats = is_floating(values.back().at(0).dtype());
    if (floats && random.chance(0.05)) step.hook = true;
    if (floats && random.chance(0.05)) step.retain = true;
  }
  choose_outputs(random, program, values);
  return program;
}

}  // namespace gradus::programs
