// Word vectors from contexts: the skip-gram model of Mikolov et al. 2013, arXiv 1310.4546, trained
// by InfoNCE, van den Oord et al. 2018, arXiv 1807.03748.
//
// A word w predicts the words c that stand near it. Each word has two vectors, u as a word and v as
// a context. Of N pairs (w_i, c_i) in a batch, the contexts of the others are the negatives:
//   loss = -1/N sum_i log(exp(u_wi . v_ci) / sum_j exp(u_wi . v_cj))
// At its minimum u_w . v_c = log(p(c | w) / p(c)), up to a constant per word (van den Oord,
// equation 5): words with the same contexts get the same vectors.
//
//   build/bin/word_vectors [--data FILE] [WORD...]      default: the words of gradus's source

#include <gradus/gradus.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "examples/pictures/image_pictures.h"
#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"

using namespace gradus;

namespace {

struct Options {
  std::string data, out = "out/words";
  int64_t steps = 4000, batch = 512, vocab = 2000, dim = 64, window = 4, shown = 70;
  double lr = 3e-3, thin = 1e-3;
  uint64_t seed = 1;
};

/// A text as the ids of its words in the vocabulary; all others are left out.
struct Words {
  models::WordTokenizer tokenizer;
  Tensor ids;     // (tokens) int64
  Tensor counts;  // (words): how often each occurs

  Words(const std::string& text, int64_t vocab)
      : tokenizer(text, {.max_words = vocab, .lower_case = true, .special = {"[UNK]"}}) {
    std::vector<int64_t> known;
    for (const int64_t id : tokenizer.encode(text))
      if (id > 0) known.push_back(id - 1);
    ids = from_data(known);
    counts = scatter_sum({size()}, 0, ids, ones(ids.shape()));
  }
  int64_t size() const { return tokenizer.vocab_size() - 1; }
  std::string operator[](int64_t id) const { return tokenizer.decode({id + 1}); }
};

/// The text with spaces for all characters but letters, digits and those outside ASCII.
std::string only_words(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 128 && !std::isalnum(static_cast<unsigned char>(c)))
      c = ' ';
  return text;
}

/// Drops each word with probability 1 - sqrt(t / f), where f is its share of the text, so
/// that "the" does not fill the windows (Mikolov et al., equation 5).
Tensor thinned(const Words& words, double t) {
  const Tensor share = words.counts / static_cast<double>(words.ids.numel());
  const Tensor keep = (rand(words.ids.shape()) < sqrt(t / share)[words.ids]);
  std::vector<int64_t> rest;
  const std::vector<int64_t> ids = words.ids.to_vector<int64_t>();
  const std::vector<bool> kept = keep.to_vector<bool>();
  for (size_t i = 0; i < ids.size(); ++i)
    if (kept[i]) rest.push_back(ids[i]);
  return from_data(rest);
}

/// Returns the vectors u of `words` words from the ids of a text: (words, dim).
Tensor train(const Tensor& text, int64_t words, const Options& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(o.dim));
  const Tensor u = (randn({words, o.dim}) * scale).requires_grad_();
  const Tensor v = (randn({words, o.dim}) * scale).requires_grad_();
  optim::Adam optimizer({u, v}, {.lr = o.lr});
  const int64_t every = std::max<int64_t>(o.steps / 10, 1);
  double total = 0;
  for (int64_t step = 1; step <= o.steps; ++step) {
    const Tensor at = randint(o.window, text.numel() - o.window, {o.batch});
    const Tensor distance = randint(1, o.window + 1, {o.batch});
    const Tensor side = randint(0, 2, {o.batch}) * 2 - 1;
    const Tensor loss =
        contrastive_cross_entropy(u[text[at]], v[text[at + side * distance]], arange(o.batch),
                                  {.temperature = 1, .cosine = false});
    optimizer.set_lr(optim::schedule::cosine(step - 1, {.lr = o.lr, .steps = o.steps}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    total += loss.item();
    if (step % every != 0) continue;
    std::printf("step %5lld  mean loss of the last %lld steps %.4f, by chance %.4f\n",
                static_cast<long long>(step), static_cast<long long>(every),
                total / static_cast<double>(every), std::log(static_cast<double>(o.batch)));
    total = 0;
  }
  return u.detach();
}

/// Prints the words whose vectors have the largest cosines with the word's.
void print_neighbours(const Words& words, const Tensor& u, int64_t id) {
  const Tensor cosines = matmul(normalize(u), normalize(u)[id]);
  const auto [values, ids] = topk(cosines, std::min<int64_t>(7, words.size()));
  std::printf("%-12s", words[id].c_str());
  for (int64_t k = 0; k < ids.numel(); ++k)
    if (const auto other = ids[k].item<int64_t>(); other != id)
      std::printf("  %s %.2f", words[other].c_str(), values[k].item());
  std::printf("\n");
}

void draw(const Words& words, const Tensor& u, const Options& o) {
  const int64_t count = std::min(o.shown, words.size());
  const std::vector<double> at =
      principal_plane(normalize(u.slice(0, 0, count))).to_vector<double>();
  Series series{"", {}, {}};
  for (int64_t id = 0; id < count; ++id) {
    const auto i = static_cast<size_t>(2 * id);
    series.points.emplace_back(at[i], at[i + 1]);
    series.labels.push_back(words[id]);
  }
  const Picture picture{.path = o.out + "/words.png",
                        .title = "Vectors of the " + std::to_string(count) +
                                 " most frequent words of " + name_of_text(o.data),
                        .x_label = "first principal direction",
                        .y_label = "second",
                        .series = {series},
                        .clouds = true};
  std::printf("%s\n", draw_or_write(picture).c_str());
}

int run(int argc, char** argv) {
  Options o;
  std::vector<std::string> asked;
  Flags flags(
      "Learns word vectors from contexts; prints the neighbours of each WORD; draws the vectors.");
  flags.group("Options");
  flags.add("--data", o.data, "FILE", "text", "gradus's own source");
  flags.add("--out", o.out, "DIR", "output folder");
  flags.add("--steps", o.steps, 1, 1e7, "steps of training");
  flags.add("--batch", o.batch, 2, 1e5, "pairs of words per step");
  flags.add("--vocab", o.vocab, 2, 1e6, "vocabulary size: the most frequent words");
  flags.add("--dim", o.dim, 1, 1e4, "dimension of the vectors");
  flags.add("--window", o.window, 1, 1e4, "maximum distance of a context word, in words");
  flags.add("--thin", o.thin, 1e-9, 1, "randomly drop words with a share of the text above this");
  flags.add("--lr", o.lr, 0, 1e3, "peak learning rate");
  flags.add("--shown", o.shown, 3, 1e4, "words in the picture");
  flags.add("--seed", o.seed, "random seed");
  flags.rest(asked);
  if (!flags.parse(argc, argv)) return 0;
  make_folder(o.out);
  manual_seed(o.seed);

  const Words words(only_words(read_text(o.data)), o.vocab);
  const Tensor text = thinned(words, o.thin);
  core::check(text.numel() > 2 * o.window, "expected a text of more than ", 2 * o.window,
              " words, got ", text.numel());
  std::vector<int64_t> ids;
  for (const std::string& word : asked) {
    const std::vector<int64_t> id = words.tokenizer.encode(word);
    core::check(id.size() == 1 && id[0] > 0, "expected words of the vocabulary, got ", shown(word));
    ids.push_back(id[0] - 1);
  }
  for (int64_t id = 20; asked.empty() && id < std::min<int64_t>(words.size(), 400); id += 20)
    ids.push_back(id);
  std::printf("%s words of text, %s different, %s left after thinning\n",
              with_commas(words.ids.numel()).c_str(), with_commas(words.size()).c_str(),
              with_commas(text.numel()).c_str());
  const Tensor u = train(text, words.size(), o);
  for (const int64_t id : ids) print_neighbours(words, u, id);
  draw(words, u, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("word_vectors", argc, argv, run); }
