// Beam search against exhaustive search.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "gradus/core/core.h"
#include "gradus/models/decoding.h"
#include "gradus/models/transformer.h"
#include "tests/support/compare.h"

namespace beam_search_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using models::Hypothesis;

namespace {

/// A model given by a table per source of the logits after a row's last two tokens.
class TableDecoder : public models::Decoder {
 public:
  TableDecoder(int64_t sources, int64_t beams, int64_t vocab, int64_t capacity)
      : vocab_(vocab), capacity_(capacity), beams_(beams) {
    manual_seed(7);
    table_ = randn({sources, vocab, vocab, vocab}, float64) * 2.0;
    read_.resize(static_cast<size_t>(sources * beams));
  }
  int64_t vocab() const override { return vocab_; }
  Tensor next_logits(const Tensor& ids) override {
    REQUIRE(ids.size(0) == std::ssize(read_));
    std::vector<Tensor> rows;
    for (int64_t r = 0; r < ids.size(0); ++r) {
      auto& tokens = read_[static_cast<size_t>(r)];
      for (const int64_t id : ids[r].to_vector<int64_t>()) tokens.push_back(id);
      rows.push_back(logits(r / beams_, tokens));
    }
    return stack(rows);
  }
  Tensor logits(int64_t source, const std::vector<int64_t>& tokens) const {
    const int64_t last = tokens.back(), before = tokens.size() > 1 ? tokens.end()[-2] : last;
    return table_[source][before][last];
  }
  void reorder(const Tensor& rows) override {
    const auto before = read_;
    for (int64_t r = 0; r < rows.size(0); ++r)
      read_[static_cast<size_t>(r)] = before[static_cast<size_t>(rows[r].item<int64_t>())];
  }
  int64_t room() const override { return capacity_ - std::ssize(read_[0]); }
  int64_t capacity() const override { return capacity_; }
  void clear() override {
    for (auto& tokens : read_) tokens.clear();
  }

 private:
  int64_t vocab_, capacity_, beams_;
  Tensor table_;
  std::vector<std::vector<int64_t>> read_;
};

constexpr int64_t start = 0, stop = 1;

double score(double log_probability, size_t n, double alpha) {
  return log_probability / std::pow((5 + static_cast<double>(n)) / 6, alpha);
}

/// The best of all complete targets of at most `most` tokens.
Hypothesis best_of_all(const TableDecoder& decoder, int64_t source, size_t most, double alpha) {
  Hypothesis best;
  best.score = -INFINITY;
  std::function<void(std::vector<int64_t>, double)> go = [&](std::vector<int64_t> tokens,
                                                             double log_probability) {
    const Tensor p = log_softmax(decoder.logits(source, tokens));
    for (int64_t id = 0; id < decoder.vocab(); ++id) {
      const double sum = log_probability + p[id].item();
      if (id == stop) {
        const double s = score(sum, tokens.size(), alpha);
        if (s > best.score) best = {{tokens.begin() + 1, tokens.end()}, sum, s, true};
      } else if (tokens.size() <= most) {
        auto longer = tokens;
        longer.push_back(id);
        go(longer, sum);
      }
    }
  };
  go({start}, 0);
  return best;
}

}  // namespace

TEST_CASE("beam search: with as many beams as targets it finds the best target", "[decoding]") {
  for (const double alpha : {0.0, 0.6, 2.0}) {
    constexpr int64_t beams = 400;  // all targets: 3 + 9 + 27 + 81 and the complete ones
    TableDecoder decoder(2, beams, 4, 20);
    const auto found = models::beam_search(
        decoder, 2,
        {.start = start, .stop = stop, .beams = beams, .tokens = 4, .length_penalty = alpha});
    REQUIRE(found.size() == 2);
    for (int64_t s = 0; s < 2; ++s) {
      const Hypothesis best = best_of_all(decoder, s, 4, alpha);
      const auto& all = found[static_cast<size_t>(s)];
      const auto first =
          std::find_if(all.begin(), all.end(), [](const Hypothesis& h) { return h.stopped; });
      REQUIRE(first != all.end());
      CHECK(first->tokens == best.tokens);
      CHECK(first->log_probability == Approx(best.log_probability));
      CHECK(first->score == Approx(best.score));
      CHECK(std::is_sorted(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) {
        return a.score > b.score;
      }));
      // Each target once, with its stop token: 1 + 3 + 9 + 27 + 81.
      CHECK(all.size() == 121);
      CHECK(std::all_of(all.begin(), all.end(), [](const Hypothesis& h) { return h.stopped; }));
    }
  }
}

TEST_CASE("beam search: one beam equals greedy decoding and ends at the stop token", "[decoding]") {
  TableDecoder decoder(5, 1, 6, 50);
  const auto found = models::beam_search(decoder, 5, {.start = start, .stop = stop, .tokens = 12});
  int64_t stopped = 0;
  for (int64_t s = 0; s < 5; ++s) {
    std::vector<int64_t> tokens{start};
    double log_probability = 0;
    bool ends = false;
    while (!ends && tokens.size() < 14) {
      const Tensor p = log_softmax(decoder.logits(s, tokens));
      const int64_t id = argmax(p).item<int64_t>();
      ends = id == stop;
      if (ends || tokens.size() < 13) log_probability += p[id].item();
      if (!ends) tokens.push_back(id);
    }
    tokens.resize(std::min<size_t>(tokens.size(), 13));
    const auto& all = found[static_cast<size_t>(s)];
    REQUIRE(all.size() == 1);
    CHECK(all[0].tokens == std::vector<int64_t>(tokens.begin() + 1, tokens.end()));
    CHECK(all[0].stopped == ends);
    CHECK(all[0].log_probability == Approx(log_probability));
    stopped += ends;
  }
  CHECK((stopped > 0 && stopped < 5));  // some searches stop early
}

TEST_CASE("beam search: more beams score no worse, and the decoder's capacity is the limit",
          "[decoding]") {
  double before = -INFINITY;
  for (const int64_t beams : {1, 3, 30}) {
    TableDecoder decoder(1, beams, 5, 30);
    const auto found = models::beam_search(
        decoder, 1,
        {.start = start, .stop = stop, .beams = beams, .tokens = 6, .length_penalty = 0});
    CHECK(found[0][0].score >= before - 1e-12);
    CHECK(std::ssize(found[0]) <= beams);
    before = found[0][0].score;
  }
  TableDecoder narrow(1, 2, 5, 3);
  const auto found =
      models::beam_search(narrow, 1, {.start = start, .stop = stop, .beams = 2, .tokens = 50});
  int64_t cut_off = 0;
  for (const Hypothesis& h : found[0]) {
    CHECK(h.tokens.size() <= 3);
    // The decoder reads the start token and two more: a third token is the last.
    CHECK(h.stopped == (h.tokens.size() < 3));
    cut_off += !h.stopped;
    CHECK(h.score == Approx(score(h.log_probability, h.tokens.size() + h.stopped, 0.6)));
  }
  CHECK(cut_off > 0);
}

TEST_CASE("beam search: a target of no tokens is found", "[decoding]") {
  TableDecoder decoder(1, 2, 2, 9);  // start and stop are the only tokens
  const auto found =
      models::beam_search(decoder, 1, {.start = start, .stop = stop, .beams = 2, .tokens = 0});
  REQUIRE(found[0].size() == 1);
  CHECK(found[0][0].tokens.empty());
  CHECK(found[0][0].stopped);
  CHECK(found[0][0].log_probability ==
        Approx(log_softmax(decoder.logits(0, {start}))[stop].item()));
}

namespace {
/// A decoder whose logits are always the same.
struct Constant : models::Decoder {
  Tensor row;  // (3)
  int64_t vocab() const override { return 3; }
  Tensor next_logits(const Tensor& ids) override { return row.expand({ids.size(0), 3}).clone(); }
  void reorder(const Tensor&) override {}
  int64_t room() const override { return 9; }
  int64_t capacity() const override { return 9; }
  void clear() override {}
};
}  // namespace

TEST_CASE("beam search: a logit of NaN is refused", "[decoding]") {
  Constant decoder;
  const auto search = [&](double value) {
    decoder.row = full({3}, value);
    models::beam_search(decoder, 1, {.start = start, .stop = stop, .tokens = 2});
  };
  CHECK_NOTHROW(search(1));
  CHECK_THROWS_WITH(search(NAN), "beam_search: a logit is NaN");
}

TEST_CASE("beam search: a token with a logit of -infinity is in no target", "[decoding]") {
  Constant decoder;
  decoder.row = tensor({-INFINITY, std::log(0.25), std::log(0.75)}, float64);
  const auto found =
      models::beam_search(decoder, 1, {.start = start, .stop = stop, .beams = 3, .tokens = 2})[0];
  const std::vector<std::pair<std::vector<int64_t>, double>> expected{
      {{2, 2}, 0.75 * 0.75}, {{}, 0.25}, {{2}, 0.75 * 0.25}};  // the first is cut off
  REQUIRE(found.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(found[i].tokens == expected[i].first);
    CHECK(found[i].log_probability == Approx(std::log(expected[i].second)));
    CHECK(found[i].stopped == (i > 0));
  }
  // After one token there are two hypotheses, fewer than beams.
  CHECK(models::beam_search(decoder, 1, {.start = start, .stop = stop, .beams = 3, .tokens = 1})[0]
            .size() == 2);
}

TEST_CASE("beam search: a decoder with another number of rows is refused", "[decoding]") {
  struct ThreeRows : models::Decoder {
    int64_t vocab() const override { return 10; }
    Tensor next_logits(const Tensor&) override { return zeros({3, 10}); }
    void reorder(const Tensor&) override {}
    int64_t room() const override { return 9; }
    int64_t capacity() const override { return 9; }
    void clear() override {}
  } decoder;
  CHECK_THROWS_WITH(
      models::beam_search(decoder, 2, {.start = start, .stop = stop, .beams = 3}),
      "beam_search: expected a decoder with 6 rows (2 sources x 3 beams), got logits (3, 10)");
}

TEST_CASE("beam search: a Transformer translates the same with and without its cache",
          "[decoding]") {
  manual_seed(8);
  const models::Transformer model({.source_vocab = 7,
                                   .target_vocab = 9,
                                   .context = 16,
                                   .layers = 1,
                                   .heads = 2,
                                   .dim = 8,
                                   .dropout = 0.5});
  const Tensor source = randint(0, 7, {3, 5}), lengths = from_data<int64_t>({5, 3, 4}, {3});
  const auto found =
      models::translate(model, source, lengths, {.start = 0, .stop = 1, .beams = 1, .tokens = 10});
  const NoGrad no_grad;
  const EvalMode eval;
  for (int64_t s = 0; s < 3; ++s) {
    std::vector<int64_t> ids{0};
    for (int64_t i = 0; i < 10; ++i) {
      const Tensor logits = model(source.slice(0, s, s + 1), lengths.slice(0, s, s + 1),
                                  from_data(ids, {1, std::ssize(ids)}));
      const int64_t id = argmax(logits[0][-1]).item<int64_t>();
      if (id == 1) break;
      ids.push_back(id);
    }
    CHECK(found[static_cast<size_t>(s)].tokens == std::vector<int64_t>(ids.begin() + 1, ids.end()));
  }
  // With more beams, the best target of each source.
  const models::BeamSearchOptions wide{.start = 0, .stop = 1, .beams = 3, .tokens = 10};
  auto decoder = model.decoder(source, lengths, 3);
  const auto all = models::beam_search(decoder, 3, wide);
  for (size_t s = 0; s < 3; ++s)
    CHECK(models::translate(model, source, lengths, wide)[s].score == all[s].front().score);
}

TEST_CASE("beam search: bad arguments throw", "[decoding]") {
  TableDecoder decoder(1, 2, 4, 9);
  auto search = [&](const models::BeamSearchOptions& o) { models::beam_search(decoder, 1, o); };
  CHECK_THROWS_WITH(search({.beams = 2}), Contains("start and stop must be tokens"));
  CHECK_THROWS_WITH(search({.start = 0, .stop = 4, .beams = 2}), Contains("vocabulary of 4"));
  CHECK_THROWS_WITH(search({.start = 0, .stop = 1, .beams = 0}), Contains("beams >= 1"));
  CHECK_THROWS_WITH(search({.start = 0, .stop = 1, .beams = INT64_MAX}),
                    Contains("expected from 1 to "));
  CHECK_THROWS_WITH(search({.start = 0, .stop = 1, .beams = 2, .tokens = -1}),
                    Contains("tokens >= 0"));
  CHECK_THROWS_WITH(models::beam_search(decoder, 0, {.start = 0, .stop = 1, .beams = 2}),
                    Contains("expected sources and beams >= 1"));
  CHECK_THROWS_WITH(search({.start = 0, .stop = 1, .beams = 2, .length_penalty = NAN}),
                    Contains("finite length_penalty"));
}

}  // namespace beam_search_test
