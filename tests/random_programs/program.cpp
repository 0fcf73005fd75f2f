#include "tests/random_programs/program.h"

#include <cctype>
#include <cmath>
#include <sstream>

#include "tests/random_programs/ops.h"

namespace gradus::programs {

int Program::ops() const {
  int count = 0;
  for (const Step& step : steps) count += step.op >= 0;
  return count;
}

namespace {

template <class T>
std::string list(const T& numbers, const char* open, const char* close) {
  std::ostringstream out;
  out.precision(17);
  out << open;
  const char* between = "";
  for (const auto& n : numbers) {
    out << between << n;
    between = ", ";
  }
  out << close;
  return out.str();
}

std::string name_of(Ref ref) {
  return "v" + std::to_string(ref.step) + "[" + std::to_string(ref.output) + "]";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The index in `text[at..]` = "[3]..."; -1 if there is none.
int index_at(const std::string& text, size_t at) {
  const bool one =
      at + 2 < text.size() && text[at] == '[' && std::isdigit(text[at + 1]) && text[at + 2] == ']';
  return one ? text[at + 1] - '0' : -1;
}

template <class T>
std::string number(const T& numbers, int k) {
  std::ostringstream out;
  out.precision(17);
  out << std::showpoint;
  out << numbers[static_cast<size_t>(k)];
  return out.str();
}

/// The op's call with the step's arguments and options in place of x, i and r.
std::string call(const Step& step) {
  const std::string text = all_ops()[static_cast<size_t>(step.op)].text;
  const Tensors no_tensors;
  std::string all = "Tensors{", out;
  for (size_t k = 0; k < step.args.size(); ++k) all += (k > 0 ? ", " : "") + name_of(step.args[k]);
  all += "}";
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool alone = (at == 0 || (!is_word(text[at - 1]) && text[at - 1] != '.')) &&
                       (at + 1 == text.size() || !is_word(text[at + 1]));
    if (!alone || (c != 'x' && c != 'i' && c != 'r')) {
      out += c;
      continue;
    }
    const int k = index_at(text, at + 1);
    if (k >= 0) at += 3;
    const bool given = k >= 0 && static_cast<size_t>(k) < (c == 'x'   ? step.args.size()
                                                           : c == 'i' ? step.ints.size()
                                                                      : step.reals.size());
    if (k >= 0 && !given)
      out += "Tensor()";
    else if (c == 'x')
      out += k >= 0 ? name_of(step.args[static_cast<size_t>(k)]) : all;
    else if (c == 'i')
      out += k >= 0 ? std::to_string(step.ints[static_cast<size_t>(k)])
                    : list(step.ints, "Ints{", "}");
    else
      out += k >= 0 ? number(step.reals, k) : list(step.reals, "Reals{", "}");
  }
  return out;
}

const char* const layouts[] = {"Layout::contiguous", "Layout::strided", "Layout::transposed",
                               "Layout::expanded"};

std::string leaf_text(const Leaf& leaf) {
  const std::string dtype = leaf.dtype == int64     ? "int64"
                            : leaf.dtype == boolean ? "boolean"
                                                    : "float64";
  std::string out = "leaf_tensor({.dtype = " + dtype + ", .shape = " + list(leaf.shape, "{", "}") +
                    ", .values = " + list(leaf.values, "{", "}") +
                    ", .axis = " + std::to_string(leaf.axis) + "}, float64, " +
                    layouts[static_cast<int>(leaf.layout)] + ")";
  if (leaf.wants_grad) out += ".requires_grad_()";
  return out;
}

const char* const islands[] = {"", "NoGrad island; ", "NoGrad no_grad; GradMode island(true); ",
                               "EvalMode island; "};

}  // namespace

std::string as_test(const Program& program, const std::string& check) {
  std::ostringstream out;
  out << "// Fails the check \"" << check << "\"; seed " << program.seed << ".\n";
  out << "#include <catch2/catch.hpp>\n\n"
      << "#include \"tests/random_programs/ops.h\"\n#include \"tests/random_programs/run.h\"\n\n";
  out << "TEST_CASE(\"a random program: " << check << "\") {\n  using namespace gradus::programs;\n"
      << "  manual_seed(" << program.seed << ");\n";
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    out << "  const Tensors v" << s;
    if (step.op < 0)
      out << "{" << leaf_text(step.leaf) << "};\n";
    else if (step.island == Island::none)
      out << "{" << call(step) << "};\n";
    else
      out << " = [&] { " << islands[static_cast<int>(step.island)] << "return "
          << (step.island == Island::no_grad ? "outside" : "Tensors") << "({" << call(step)
          << "}); }();\n";
    if (step.leaf.has_grad)
      out << "  v" << s << "[0].set_grad(constants(v" << s << "[0].shape(), float64, " << s + 77
          << "));\n";
    const std::string first = "v" + std::to_string(s) + "[0]";
    const std::string if_recorded = "  if (" + first + ".requires_grad()) " + first;
    if (step.hook)
      out << if_recorded << ".register_hook([](const Tensor& g) { return g.clone(); });\n";
    if (step.retain) out << if_recorded << ".retain_grad();\n";
  }
  out << "  const Tensor loss = ";
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const Ref ref = program.outputs[k];
    out << (k > 0 ? " + " : "") << "sum(" << name_of(ref) << " * constants(" << name_of(ref)
        << ".shape(), float64, " << ref.step * 8 + ref.output << "))";
  }
  out << ";\n  loss.backward();\n}\n";
  return out.str();
}

std::string as_json(const Reals& numbers) {
  std::vector<std::string> texts;
  for (const double v : numbers) {
    std::ostringstream out;
    out.precision(17);
    out << v;
    // As Python's json reads them.
    texts.push_back(std::isfinite(v) ? out.str()
                    : std::isnan(v)  ? "NaN"
                    : v > 0          ? "Infinity"
                                     : "-Infinity");
  }
  return list(texts, "[", "]");
}
std::string as_json(const Shape& shape) { return list(shape, "[", "]"); }

std::string as_json(const Program& program) {
  std::ostringstream out;
  out << "{\"seed\":" << program.seed << ",\"steps\":[";
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    out << (s > 0 ? "," : "");
    if (step.op < 0) {
      out << "{\"dtype\":\"" << gradus::name_of(step.leaf.dtype)
          << "\",\"shape\":" << as_json(step.leaf.shape)
          << ",\"values\":" << as_json(step.leaf.values) << ",\"grad\":" << step.leaf.wants_grad
          << "}";
      continue;
    }
    out << "{\"op\":\"" << all_ops()[static_cast<size_t>(step.op)].name << "\",\"args\":[";
    for (size_t k = 0; k < step.args.size(); ++k)
      out << (k > 0 ? "," : "") << "[" << step.args[k].step << "," << step.args[k].output << "]";
    out << "],\"i\":" << list(step.ints, "[", "]") << ",\"r\":" << as_json(step.reals)
        << ",\"island\":" << static_cast<int>(step.island) << "}";
  }
  out << "],\"outputs\":[";
  for (size_t k = 0; k < program.outputs.size(); ++k)
    out << (k > 0 ? "," : "") << "[" << program.outputs[k].step << "," << program.outputs[k].output
        << "]";
  out << "]}";
  return out.str();
}

}  // namespace gradus::programs
