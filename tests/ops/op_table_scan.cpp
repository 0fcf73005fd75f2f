// Every op has a row: for each name recorded in the sources, the table must have a row of that name
// whose graph contains it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_checks.h"
#include "tests/support/paths.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// C++ without its comments.
std::string without_comments(const std::string& text) {
  static const std::regex comment(
      R"re("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)re");
  std::string out;
  auto at = text.cbegin();
  for (std::sregex_iterator it(text.begin(), text.end(), comment), end; it != end; ++it) {
    out.append(at, (*it)[0].first);
    if (it->str()[0] != '/') out += it->str();
    at = (*it)[0].second;
  }
  return out.append(at, text.cend());
}

using Sources = std::map<std::string, std::string>;  // path -> text

/// A call of a function: its position in the text, and its first argument as written.
struct Call {
  size_t at;
  std::string argument;
};

/// The position after the `close` that matches the `open` at text[at]; npos if there is none.
size_t skip_balanced(const std::string& text, size_t at, char open, char close) {
  for (int depth = 0; at < text.size(); ++at) {
    if (text[at] == open) ++depth;
    if (text[at] == close && --depth == 0) return at + 1;
    if (open == '<' && (text[at] == ';' || text[at] == '{')) break;  // a comparison
  }
  return std::string::npos;
}

std::vector<Call> calls_of(const std::string& function, const std::string& text) {
  std::vector<Call> calls;
  auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t start = text.find(function); start != std::string::npos;
       start = text.find(function, start + 1)) {
    size_t at = start + function.size();
    if ((start > 0 && in_word(text[start - 1])) || at >= text.size() || in_word(text[at])) continue;
    at = text.find_first_not_of(" \n", at);
    if (at == std::string::npos) break;
    if (text[at] == '<') at = skip_balanced(text, at, '<', '>');
    if (at >= text.size() || text[at] != '(') continue;
    at = text.find_first_not_of(" \n", at + 1);
    size_t stop = at;
    for (int depth = 0; stop < text.size(); ++stop) {
      const char c = text[stop];
      if (depth == 0 && (c == ',' || c == ')')) break;
      depth += c == '(' || c == '{' ? 1 : c == ')' || c == '}' ? -1 : 0;
    }
    calls.push_back({start, text.substr(at, stop - at)});
  }
  return calls;
}

/// Searches sources for the names that reach record() and record_fused(): literals, constants, and
/// arguments of functions that pass their first argument on.
class Scan {
 public:
  explicit Scan(Sources sources) : sources_(std::move(sources)) {
    for (auto& [path, text] : sources_) text = without_comments(text);
    for (const char* function : {"record", "record_fused"})
      for (const auto& [path, text] : sources_) follow(function, path);
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  /// Follows all calls of a function. Those in its own file must be resolved; in other files only
  /// literals count, since another function may have the same name.
  void follow(const std::string& function, const std::string& home) {
    if (!seen_.insert({function, home}).second) return;
    for (const auto& [path, text] : sources_)
      for (const Call& call : calls_of(function, text)) {
        if (call.argument.find("const char*") != std::string::npos) continue;  // a definition
        if (!take_literals(call.argument) && path == home) resolve(call, path);
      }
  }

  bool take_literals(const std::string& argument) {
    static const std::regex literal("\"([^\"]*)\"");
    std::sregex_iterator it(argument.begin(), argument.end(), literal), end;
    for (auto i = it; i != end; ++i) names_.insert((*i)[1]);
    return it != end;
  }

  /// The names in the table of activations.
  void take_activations() {
    static const std::regex name("const char\\* name = \"(\\w+)\"");
    const std::string& text = sources_.at(source_path("core/ops/activation_table.h"));
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
      names_.insert((*it)[1]);
  }

  /// Resolves a name that is not a literal: the nearest constant or parameter of that name above.
  void resolve(const Call& call, const std::string& path) {
    if (call.argument == "A::name") return take_activations();
    const std::string before = sources_.at(path).substr(0, call.at);
    const std::regex declaration(
        "(\\w+)?(\\()?\\s*const char\\* (\\w+)\\b(\\s*=\\s*\"([^\"]*)\")?");
    std::smatch found;
    for (std::sregex_iterator it(before.begin(), before.end(), declaration), end; it != end; ++it)
      if ((*it)[3] == call.argument) found = *it;
    if (!found.empty() && found[4].matched) {
      names_.insert(found[5]);
    } else if (!found.empty() && found[1].matched && found[2].matched) {
      follow(found[1], path);
    } else {
      fail(path, ": cannot tell which name is recorded by ", call.argument);
    }
  }

  Sources sources_;
  std::set<std::pair<std::string, std::string>> seen_;
  std::set<std::string> names_;
};

std::set<std::string> recorded_in_library() {
  namespace fs = std::filesystem;
  Sources sources;
  for (const char* room : {"core", "nn", "optim", "models"})
    for (const auto& entry : fs::recursive_directory_iterator(gradus::testing::source_path(room)))
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
        sources[entry.path().string()] = read_file(entry.path().string());
  std::set<std::string> names = Scan(std::move(sources)).names();
  names.erase("composed");  // recorded by every fused op under Modes::composed
  return names;
}

/// The names of the nodes recorded by the row's samples.
std::set<std::string> recorded_by(const OpRow& row) {
  std::set<std::string> names;
  for (const Sample& sample : row.samples) {
    Tensors inputs = draw(sample);
    for (Tensor& x : inputs)
      if (is_floating(x.dtype())) x.requires_grad_();
    for (const std::string& name : recorded_names(row.f(inputs))) names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("ops: every recorded op has a row", "[ops][fused]") {
  const std::set<std::string> recorded = recorded_in_library();
  CHECK(recorded.size() >= 60);
  for (const char* name : {"add", "alias", "argmax", "clone", "linear", "max", "pad_slice",
                           "reshape", "scaled_dot_product_attention", "softmax", "topk"})
    CHECK(recorded.contains(name));
  std::map<std::string, std::set<std::string>> by_row;  // names recorded by each row
  std::set<std::string> without_gradient;
  manual_seed(1);
  for (const OpRow& row : op_table()) {
    by_row[row.name].merge(recorded_by(row));
    if (!row.differentiable) without_gradient.insert(row.name);
  }
  for (const std::string& name : recorded) {
    INFO("the op " << name << " is recorded and needs a row in tests/op_table_*.cpp that calls it");
    CHECK((by_row[name].contains(name) || without_gradient.contains(name)));
  }
}

TEST_CASE("ops: the search for recorded names misses none", "[ops]") {
  const char* source = R"(
    // record("in a comment", {y}, {x});
    Tensor f(const Tensor& x) { record("plain", {y}, {x}, saves, rule); }
    template <class F> Tensor helper(const char* name, F f) { gradus::record(name, {y}, {x}, f); }
    Tensor outer(const char* op) { return helper<Map<int>>(op, [](auto v) { return v < 0; }); }
    Tensor g() { return outer("nested"); }
    Tensor h() { return helper( c ? "either" : "or", 0); }
    Tensor k() { constexpr const char* op = "constant"; record_fused(
        op, {y}); }
    Tensor l() { record
        ("on the next line", {y}); }
    bool record_reshape(int x) { return recorded(x) && record < 3; }
  )";
  const std::set<std::string> expected{"plain", "nested",   "either",
                                       "or",    "constant", "on the next line"};
  auto names_in = [](const Sources& sources) { return Scan(sources).names(); };
  CHECK(names_in({{"a.cpp", source}}) == expected);
  CHECK(names_in({{"a.cpp", "void f(const char* op) { record(op, 1); }"},
                  {"b.cpp", "f(\"elsewhere\");"}}) == std::set<std::string>{"elsewhere"});
  CHECK_THROWS_WITH(names_in({{"a.cpp", "void f(Op op) { record(op.name(), 1); }"}}),
                    "a.cpp: cannot tell which name is recorded by op.name()");
  CHECK_THROWS_WITH(names_in({{"a.cpp", "void f(int i, const char* op) { record(op, 1); }"}}),
                    Catch::Matchers::Contains("cannot tell"));
}

}  // namespace gradus::testing
