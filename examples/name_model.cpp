// Predicts the next character of a name from the embeddings of the three before it: Bengio et al.
// 2003, "A Neural Probabilistic Language Model". Parameters are plain tensors, updated by hand.
//
//   build/bin/name_model [names.txt]    one name per line; default: the words of gradus's source

#include <gradus/gradus.h>

#include <cctype>
#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/cli.h"
#include "examples/support/source_text.h"

using namespace gradus;

namespace {

constexpr int64_t context = 3, dim = 10, hidden = 200, batch = 32, steps = 20000;

// Maps characters to ids and back; id 0 is '.', which surrounds each name.
struct Vocabulary {
  std::string chars = ".";
  explicit Vocabulary(const std::vector<std::string>& names) {
    std::set<char> seen;
    for (const std::string& name : names) seen.insert(name.begin(), name.end());
    chars.append(seen.begin(), seen.end());
  }
  int64_t size() const { return std::ssize(chars); }
  int64_t operator[](char c) const { return static_cast<int64_t>(chars.find(c)); }
};

struct Examples {
  Tensor x, y;  // (n, context) and (n)
};

// "emma" gives ... -> e, ..e -> m, .em -> m, emm -> a, mma -> .
Examples make_examples(const std::vector<std::string>& names, const Vocabulary& vocabulary) {
  std::vector<std::vector<int64_t>> x;
  std::vector<int64_t> y;
  for (const std::string& name : names) {
    std::vector<int64_t> window(context, 0);
    for (const char c : name + '.') {
      x.push_back(window);
      y.push_back(vocabulary[c]);
      window.erase(window.begin());
      window.push_back(vocabulary[c]);
    }
  }
  return {from_data(x), from_data(y)};
}

struct Model {
  Tensor C, W1, b1, W2, b2;
  explicit Model(int64_t vocab)
      : C(randn({vocab, dim})),
        W1(randn({context * dim, hidden}) * (5.0 / 3 / std::sqrt(context * dim))),
        b1(zeros({hidden})),
        W2(randn({hidden, vocab}) * 0.01),  // small: all characters start equally likely
        b2(zeros({vocab})) {
    for (const Tensor& p : parameters()) p.requires_grad_();
  }
  std::vector<Tensor> parameters() const { return {C, W1, b1, W2, b2}; }
  Tensor operator()(const Tensor& x) const {
    // (n, context, dim) -> (n, context * dim)
    const Tensor e = C[x].view({-1, context * dim});
    const Tensor h = tanh(e.matmul(W1) + b1);
    return h.matmul(W2) + b2;
  }
};

double loss_of(const Model& model, const Examples& data) {
  NoGrad no_grad;
  return cross_entropy(model(data.x), data.y).item();
}

/// The lines of a file, or the words of 4 to 12 letters in the library's source.
std::vector<std::string> read_names(int argc, char** argv) {
  std::set<std::string> names;
  std::string text = argc > 1 ? read_file(argv[1]) : source_text(), name;
  for (const char c : text + '\n') {
    core::check(argc < 2 || c != '.', argv[1], ": expected names without a '.', got ", name, "...");
    if (argc > 1 ? c != '\n' && c != '\r' : std::isalpha(static_cast<unsigned char>(c))) {
      name += c;
    } else {
      if (argc > 1 ? !name.empty() : name.size() >= 4 && name.size() <= 12) names.insert(name);
      name.clear();
    }
  }
  core::check(names.size() >= 10, "expected at least 10 names, got ", names.size());
  return {names.begin(), names.end()};
}

int run(int argc, char** argv) {
  core::check(argc <= 2 && (argc < 2 || argv[1][0] != '-'), "expected name_model [names.txt]");
  const std::vector<std::string> names = read_names(argc, argv);
  const Vocabulary vocabulary(names);

  // 90% of the names are for training, 10% for validation.
  manual_seed(2147483647);
  std::vector<std::string> train_names, dev_names;
  const std::vector<int64_t> order = randperm(std::ssize(names)).to_vector<int64_t>();
  for (size_t i = 0; i < order.size(); ++i)
    (i * 10 < order.size() * 9 ? train_names : dev_names)
        .push_back(names[static_cast<size_t>(order[i])]);
  const Examples train = make_examples(train_names, vocabulary);
  const Examples dev = make_examples(dev_names, vocabulary);

  const Model model(vocabulary.size());
  const std::vector<Tensor> parameters = model.parameters();
  int64_t count = 0;
  for (const Tensor& p : parameters) count += p.numel();
  std::printf("%zu names, %lld examples, %lld parameters\n", names.size(),
              static_cast<long long>(train.y.numel()), static_cast<long long>(count));

  for (int64_t step = 0; step < steps; ++step) {
    const Tensor some = randint(0, train.x.size(0), {batch});  // a random minibatch
    const Tensor loss = cross_entropy(model(train.x[some]), train.y[some]);

    for (const Tensor& p : parameters) p.set_grad({});
    loss.backward();

    const double lr = optim::schedule::step(step, {.lr = 0.1, .every = steps / 2, .factor = 0.1});
    {
      NoGrad no_grad;
      for (Tensor p : parameters) p -= lr * p.grad();  // p is a handle: this updates the parameter
    }
    if (step % 2000 == 0)
      std::printf("step %5lld  batch loss %.4f\n", static_cast<long long>(step), loss.item());
  }
  std::printf("train loss %.4f, dev loss %.4f\n\n", loss_of(model, train), loss_of(model, dev));

  // New names, each character sampled from the predicted distribution.
  NoGrad no_grad;
  for (int i = 0; i < 20; ++i) {
    std::string name;
    std::vector<int64_t> window(context, 0);
    while (true) {
      const Tensor probs = model(from_data(window, {1, context})).softmax(1);
      const int64_t ix = multinomial(probs, 1).item<int64_t>();
      if (ix == 0) break;
      name += vocabulary.chars[static_cast<size_t>(ix)];
      window.erase(window.begin());
      window.push_back(ix);
    }
    std::printf("%s\n", name.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("name_model", argc, argv, run); }
