#include "gradus/models/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "gradus/core/internal.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::models {

namespace {
void check_no_graph(const char* op) {
  check(!grad_enabled(), op, ": no gradients flow through a decoder; use it under NoGrad");
}

void check_options(const SamplingOptions& o) {
  check(o.temperature >= 0 && o.temperature <= std::numeric_limits<float>::max(),
        "generate: expected a temperature >= 0 that is finite in float32, got ", o.temperature);
  check(o.top_k >= 0, "generate: expected top_k >= 0, got ", o.top_k);
  check(o.top_p > 0 && o.top_p <= 1, "generate: expected 0 < top_p <= 1, got ", o.top_p);
  check(o.min_p >= 0 && o.min_p <= 1, "generate: expected 0 <= min_p <= 1, got ", o.min_p);
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
        "generate: expected a repetition_penalty > 0, got ", o.repetition_penalty);
}

/// The logits (vocab) with penalty and biases. Returns `logits` itself if there are none.
Tensor adjusted(const Tensor& logits, const SamplingOptions& o, const std::vector<int64_t>& text) {
  const int64_t vocab = logits.numel();
  for (const auto& [id, bias] : o.logit_bias)
    check(id >= 0 && id < vocab && bias < std::numeric_limits<double>::infinity(),
          "generate: logit_bias: expected token ids below ", vocab, " and finite values, got ", id,
          " and ", bias);
  if (o.repetition_penalty == 1 && o.logit_bias.empty()) return logits;
  const Tensor out = logits.clone();
  dispatch_floating("sample_token", logits.dtype(), [&]<class T>(TypeTag<T>) {
    T* const x = out.data<T>();
    for (const int64_t id : std::set<int64_t>(text.begin(), text.end())) {
      if (o.repetition_penalty == 1 || id < 0 || id >= vocab) continue;
      x[id] =
          static_cast<T>(x[id] > 0 ? x[id] / o.repetition_penalty : x[id] * o.repetition_penalty);
    }
    for (const auto& [id, bias] : o.logit_bias) x[id] = static_cast<T>(x[id] + bias);
  });
  return out;
}

struct Candidate {
  double probability;
  int64_t id;
  bool operator<(const Candidate& other) const {  // more likely first
    return probability != other.probability ? probability > other.probability : id < other.id;
  }
};

/// The k most likely of n tokens, in a heap with the least likely one on top; all if k is 0. Tokens
/// of probability 0 are left out.
template <class T>
std::vector<Candidate> most_likely(const T* probabilities, int64_t n, int64_t k) {
  std::vector<Candidate> candidates;
  if (k == 0) k = n;
  candidates.reserve(static_cast<size_t>(std::min(k, n)));
  for (int64_t i = 0; i < n; ++i) {
    if (probabilities[i] == 0) continue;
    const Candidate next{static_cast<double>(probabilities[i]), i};
    if (std::ssize(candidates) >= k) {
      if (!(next < candidates.front())) continue;
      std::pop_heap(candidates.begin(), candidates.end());
      candidates.pop_back();
    }
    candidates.push_back(next);
    if (k < n) std::push_heap(candidates.begin(), candidates.end());
  }
  return candidates;
}

double largest_of(const std::vector<Candidate>& candidates) {
  return std::min_element(candidates.begin(), candidates.end())->probability;
}

// Keeps the fewest most likely candidates whose probabilities reach top_p of the total, at least
// one.
void keep_nucleus(std::vector<Candidate>& candidates, double total, double top_p) {
  // Candidates below `least` sum to less than 1 - top_p of the total: none is kept, none is sorted.
  // The largest one is kept even if rounding puts equal ones below their mean.
  const double mean = total / static_cast<double>(candidates.size());
  const double least = std::min((1 - top_p) * mean, largest_of(candidates));
  std::erase_if(candidates, [&](const Candidate& c) { return c.probability < least; });
  std::sort(candidates.begin(), candidates.end());
  double sum = 0;
  size_t n = 0;
  do {
    sum += candidates[n++].probability;
  } while (n < candidates.size() && sum < top_p * total);
  candidates.resize(n);
}

double total_of(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.probability; });
}
}  // namespace

void internal::check_beams(const char* op, int64_t sources, int64_t beams) {
  const int64_t max_beams = (int64_t{1} << 24) / std::max<int64_t>(sources, 1);
  check(beams >= 1 && beams <= max_beams, op, ": expected from 1 to ", max_beams, " beams, got ",
        beams);
}

void internal::check_ids(const char* op, const char* what, const Tensor& ids) {
  check(ids.defined() && ids.rank() == 2 && ids.dtype() == int64 && ids.numel() > 0, op,
        ": expected ", what, " (B, T) of int64, not empty, got ",
        ids.defined() ? ids.shape() : Shape{});
}

void internal::select_rows(std::initializer_list<Tensor*> tensors, const Tensor& rows) {
  for (Tensor* x : tensors)
    if (x->defined()) *x = index_select(*x, 0, rows);
}

internal::SourceRows::SourceRows(const char* op, int64_t sources, int64_t beams) : op_(op) {
  check_no_graph(op);
  check_beams(op, sources, beams);
  for (int64_t row = 0; row < sources * beams; ++row) source_.push_back(row / beams);
}

Tensor internal::SourceRows::index() const { return from_data(source_, {size()}); }

void internal::SourceRows::check_next(const Tensor& ids, int64_t room) const {
  check_no_graph(op_);
  internal::check_ids(op_, "target ids", ids);
  check(ids.size(0) == size() && ids.size(1) <= room, op_, ": expected ids (", size(),
        ", T) with T up to ", room, ", got ", ids.shape());
}

bool internal::SourceRows::reorder(const Tensor& rows) {
  check(rows.shape() == Shape{size()}, op_, ": expected ", size(), " row indices, got ",
        rows.shape());
  const std::vector<int64_t> source = index_select(index(), 0, rows).to_vector<int64_t>();
  if (source == source_) return false;
  source_ = source;
  return true;
}

int64_t sample_token(const Tensor& all, const SamplingOptions& options, Generator& generator,
                     const std::vector<int64_t>& text) {
  check_options(options);
  check(all.rank() == 1 && all.numel() > 0 && is_floating(all.dtype()),
        "sample_token: expected logits (vocab), got ", all.shape());
  NoGrad no_grad;
  const Tensor logits = adjusted(all, options, text);
  const Tensor best = max(logits);
  check(std::isfinite(best.item()), "sample_token: the largest logit, after penalty and bias, is ",
        best.item(), ": expected a finite one");
  if (options.temperature < 1e-6) return argmax(logits, 0).item<int64_t>();

  const Tensor probabilities = softmax((logits - best) / options.temperature);
  std::vector<Candidate> candidates;
  dispatch_floating("sample_token", logits.dtype(), [&](auto tag) {
    const auto* p = probabilities.data<typename decltype(tag)::type>();
    candidates = most_likely(p, logits.numel(), options.top_k);
  });
  if (options.min_p > 0) {
    const double least = options.min_p * largest_of(candidates);
    std::erase_if(candidates, [&](const Candidate& c) { return c.probability < least; });
  }
  if (options.top_p < 1) keep_nucleus(candidates, total_of(candidates), options.top_p);

  // Draw in the order of ids: the order of `candidates` depends on the last bits of all logits.
  const auto earlier = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(candidates.begin(), candidates.end(), earlier))
    std::sort(candidates.begin(), candidates.end(), earlier);
  const auto words = philox(generator.reserve(2), 0);
  double remaining = uniform_double(words[0], words[1]) * total_of(candidates);
  for (const Candidate& c : candidates) {
    if (remaining < c.probability) return c.id;
    remaining -= c.probability;
  }
  return candidates.back().id;
}

internal::Continuation::Continuation(int64_t vocab, const std::vector<int64_t>& prompt,
                                     const GenerateOptions& options)
    : options_(options),
      generator_(options.seed),
      text_(prompt),
      prompt_(std::ssize(prompt)),
      running_(options.tokens > 0) {
  check(options.tokens >= 0, "generate: expected tokens >= 0, got ", options.tokens);
  check(options.stop_token >= -1 && options.stop_token < vocab, "generate: stop token ",
        options.stop_token, " is not in a vocabulary of ", vocab);
  check(options.vocab >= 0 && options.vocab <= vocab, "generate: expected vocab from 0 to ", vocab,
        ", got ", options.vocab);
  if (options_.vocab == 0) options_.vocab = vocab;
  check_options(options.sampling);
  check(!prompt.empty(), "generate: expected a prompt of at least one token");
  for (int64_t id : prompt)
    check(id >= 0 && id < vocab, "generate: token ", id,
          " of the prompt is not in a vocabulary of ", vocab);
}

Tensor internal::Continuation::last(int64_t n) const {
  n = std::min(n, std::ssize(text_));
  return from_data(std::vector<int64_t>(text_.end() - n, text_.end()), {1, n});
}

void internal::Continuation::add(const Tensor& logits) {
  const Tensor choices = logits.slice(0, 0, options_.vocab);
  const int64_t id = sample_token(choices, options_.sampling, generator_, text_);
  running_ = id != options_.stop_token;
  if (!running_) return;
  text_.push_back(id);
  if (options_.log_probabilities)
    options_.log_probabilities->push_back(log_softmax(choices.to(float64))[id].item());
  if (options_.on_token) options_.on_token(id);
  const bool full = std::ssize(text_) - prompt_ == options_.tokens;
  running_ = !full && !(options_.stop_if && options_.stop_if());
}

namespace {
/// Returns how many of the prompt's first tokens need not be read again: the number of tokens in
/// `held` if the decoder has read exactly these, the prompt begins with them and is longer, and the
/// prompt fits into the decoder; otherwise 0.
int64_t held_by(const Decoder& decoder, const std::vector<int64_t>& held,
                const std::vector<int64_t>& prompt) {
  const int64_t n = std::ssize(held);
  const bool begins =
      n < std::ssize(prompt) && std::equal(held.begin(), held.end(), prompt.begin());
  const bool fits = std::ssize(prompt) <= decoder.capacity();
  return begins && fits && decoder.capacity() - decoder.room() == n ? n : 0;
}
}  // namespace

std::vector<int64_t> generate(Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options) {
  internal::Continuation text(decoder.vocab(), prompt, options);
  NoGrad no_grad;
  EvalMode eval;
  const int64_t held = options.held ? held_by(decoder, *options.held, prompt) : 0;
  if (held == 0) decoder.clear();
  if (options.held) options.held->clear();  // unless all goes well
  int64_t unread = std::ssize(prompt) - held;
  bool holds_all = unread <= decoder.room();
  while (text.running()) {
    if (decoder.room() == 0) {
      decoder.clear();
      unread = std::max<int64_t>(decoder.capacity() / 2, 1);
      holds_all = false;
    }
    const Tensor logits = decoder.next_logits(text.last(std::min(unread, decoder.room())));
    check(logits.shape() == Shape{1, decoder.vocab()},
          "generate: expected a decoder of one row, got logits ", logits.shape());
    text.add(logits[0]);
    unread = 1;
  }
  if (options.held && holds_all) {
    const int64_t read = decoder.capacity() - decoder.room();
    options.held->assign(text.text().begin(), text.text().begin() + read);
  }
  return text.tokens();
}

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) check(!stop.empty(), "generate: a stop string is empty");
}

std::string StopText::add(const std::string& piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t end = held_.size();            // of the text that can be returned
  size_t complete = std::string::npos;  // where the first stop string is complete
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > complete) continue;
    end = at + stop.size() == complete ? std::min(end, at) : at;
    complete = at + stop.size();
  }
  stopped_ = complete != std::string::npos;
  // Hold back an end of the text that may be the beginning of a stop string.
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > 0 && !stopped_; --n)
      if (held_.ends_with(stop.substr(0, n))) {
        end = std::min(end, held_.size() - n);
        break;
      }
  const std::string certain = held_.substr(0, end);
  held_.erase(0, stopped_ ? held_.size() : end);
  return certain;
}

// ---- beam search ----

namespace {

struct Beam {
  Hypothesis hypothesis;
  int64_t row;         // row of the decoder
  bool ended = false;  // stop was one of its continuations
};

/// A beam and its next token.
struct Continuation {
  double log_probability;
  size_t beam;
  int64_t token;
  bool operator<(const Continuation& other) const {  // better first
    if (log_probability != other.log_probability) return log_probability > other.log_probability;
    return std::pair(beam, token) < std::pair(other.beam, other.token);
  }
};

/// The best `width` continuations of a source's beams; log_probs (rows, vocab) in float64.
std::vector<Continuation> best_continuations(const std::vector<Beam>& beams,
                                             const Tensor& log_probs, int64_t width) {
  const int64_t vocab = log_probs.size(1);
  std::vector<Continuation> all;
  for (size_t b = 0; b < beams.size(); ++b) {
    const double* p = log_probs.data<double>() + beams[b].row * vocab;
    for (int64_t token = 0; token < vocab; ++token) {
      check(!std::isnan(p[token]), "beam_search: a logit is NaN");
      if (std::isfinite(p[token]))
        all.push_back({beams[b].hypothesis.log_probability + p[token], b, token});
    }
  }
  check(!all.empty(), "beam_search: no token has a finite log probability");
  const auto count = std::min<std::ptrdiff_t>(width, std::ssize(all));
  std::partial_sort(all.begin(), all.begin() + count, all.end());
  all.resize(static_cast<size_t>(count));
  return all;
}

/// The search of one source.
struct Search {
  std::vector<Beam> beams;
  std::vector<Hypothesis> done;

  void finish(Hypothesis h, bool stopped, double alpha) {
    const auto n = static_cast<double>(std::ssize(h.tokens) + stopped);
    h.stopped = stopped;
    h.score = h.log_probability / std::pow((5 + n) / 6, alpha);
    done.push_back(std::move(h));
  }
  /// Extends all beams by a token. Continued beams take rows first_row, first_row + 1, ... of the
  /// decoder; rows[r] is set to the previous row of the beam that takes row r.
  void step(const Tensor& log_probs, const BeamSearchOptions& o, int64_t first_row,
            std::vector<int64_t>& rows) {
    std::vector<Beam> next;
    for (const Continuation& c : best_continuations(beams, log_probs, o.beams - std::ssize(done))) {
      Hypothesis h = beams[c.beam].hypothesis;
      h.log_probability = c.log_probability;
      if (c.token == o.stop) {
        beams[c.beam].ended = true;
        finish(std::move(h), true, o.length_penalty);
        continue;
      }
      if (std::ssize(h.tokens) == o.tokens) continue;  // full: stop is its only continuation
      h.tokens.push_back(c.token);
      const int64_t row = first_row + std::ssize(next);
      rows[static_cast<size_t>(row)] = beams[c.beam].row;
      next.push_back({std::move(h), row});
    }
    for (Beam& beam : beams)
      if (std::ssize(beam.hypothesis.tokens) == o.tokens && !beam.ended)
        finish(std::move(beam.hypothesis), false, o.length_penalty);
    beams = std::move(next);
  }
};

void check_options(const Decoder& decoder, int64_t sources, const BeamSearchOptions& o) {
  check(sources >= 1 && o.beams >= 1 && o.tokens >= 0,
        "beam_search: expected sources and beams >= 1 and tokens >= 0, got ", sources, ", ",
        o.beams, " and ", o.tokens);
  internal::check_beams("beam_search", sources, o.beams);
  check(std::isfinite(o.length_penalty), "beam_search: expected a finite length_penalty, got ",
        o.length_penalty);
  for (const int64_t id : {o.start, o.stop})
    check(id >= 0 && id < decoder.vocab(), "beam_search: start and stop must be tokens of a ",
          "vocabulary of ", decoder.vocab(), ", got ", o.start, " and ", o.stop);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(Decoder& decoder, int64_t sources,
                                                 const BeamSearchOptions& o) {
  check_options(decoder, sources, o);
  const NoGrad no_grad;
  const EvalMode eval;
  const int64_t rows = sources * o.beams;
  std::vector<Search> searches(static_cast<size_t>(sources));
  for (int64_t s = 0; s < sources; ++s)
    searches[static_cast<size_t>(s)].beams = {{{}, s * o.beams}};
  decoder.clear();
  std::vector<int64_t> ids(static_cast<size_t>(rows), o.start);
  auto searching = [](const Search& search) { return !search.beams.empty(); };
  for (int64_t i = 0; i <= o.tokens && decoder.room() > 0; ++i) {
    const Tensor logits = decoder.next_logits(from_data(ids, {rows, 1}));
    check(logits.shape() == Shape{rows, decoder.vocab()}, "beam_search: expected a decoder with ",
          rows, " rows (", sources, " sources x ", o.beams, " beams), got logits ", logits.shape());
    const Tensor log_probs = log_softmax(logits.to(float64));
    std::vector<int64_t> from(static_cast<size_t>(rows));
    std::iota(from.begin(), from.end(), 0);
    for (int64_t s = 0; s < sources; ++s)
      if (Search& search = searches[static_cast<size_t>(s)]; searching(search))
        search.step(log_probs, o, s * o.beams, from);
    if (std::none_of(searches.begin(), searches.end(), searching)) break;
    for (const Search& search : searches)
      for (const Beam& beam : search.beams)
        ids[static_cast<size_t>(beam.row)] = beam.hypothesis.tokens.back();
    if (o.beams > 1) decoder.reorder(from_data(from, {rows}));
  }
  std::vector<std::vector<Hypothesis>> found;
  for (Search& search : searches) {
    for (Beam& beam : search.beams)
      search.finish(std::move(beam.hypothesis), false, o.length_penalty);
    std::stable_sort(search.done.begin(), search.done.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    found.push_back(std::move(search.done));
  }
  return found;
}

}  // namespace gradus::models
