#include "gradus/models/captioner.h"

#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::models {

namespace {
CaptionerConfig checked(CaptionerConfig c) {
  Captioner::fields(c).check("Captioner");
  return c;
}

nn::RecurrentCell make_cell(const CaptionerConfig& c) {
  const int64_t input = c.dim + c.features();
  if (c.cell == Recurrence::lstm) return nn::LSTMCell(input, c.hidden);
  if (c.cell == Recurrence::gru) return nn::GRUCell(input, c.hidden);
  const bool relu = c.cell == Recurrence::rnn_relu;
  return nn::RNNCell(input, c.hidden, {.nonlinearity = relu ? Activation::relu : Activation::tanh});
}

/// Convolution i: all but the last halve the feature map.
nn::Conv2d make_convolution(const CaptionerConfig& c, int64_t i) {
  const int64_t out = c.filters << std::min(i, c.convolutions - 1);
  const int64_t in = i == 0 ? c.channels : i == c.convolutions ? out : out / 2;
  return nn::Conv2d(in, out, 3,
                    {.stride = i < c.convolutions ? 2 : 1, .padding = 1, .hidden = i > 0});
}

/// Selects rows of a state.
RecurrentState select(const RecurrentState& state, const Tensor& rows) {
  return {index_select(state.h, 0, rows),
          state.c.defined() ? index_select(state.c, 0, rows) : state.c};
}
}  // namespace

int64_t CaptionerConfig::grid() const {
  int64_t size = image;
  for (int64_t i = 0; i < convolutions; ++i) size = (size + 1) / 2;
  return size;
}

int64_t CaptionerConfig::features() const { return filters << (convolutions - 1); }

Fields Captioner::fields(CaptionerConfig& c) {
  Fields fields;
  fields.add("vocab", c.vocab, 1, 1e9, "vocabulary size");
  fields.add("context", c.context, 1, 1e6, "maximum length of a caption, [START] included");
  fields.add("image", c.image, 1, 1e5, "height and width of an image");
  fields.add("channels", c.channels, 1, 1e4, "channels of an image");
  fields.add("filters", c.filters, 1, 1e5,
             "filters of the first convolution; doubled by each later one but the last");
  fields.add("convolutions", c.convolutions, 1, 10,
             "number of convolutions that halve the feature map");
  fields.add("dim", c.dim, 1, 1e6, "size of word embeddings");
  fields.add("hidden", c.hidden, 1, 1e6, "size of the decoder's state");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("cell", c.cell, {"rnn", "relu", "lstm", "gru"}, "kind of recurrent cell");
  fields.add("coverage", c.coverage, 0, 1e6, "weight of the penalty for uneven attention");
  return fields;
}

Captioner::Captioner(const CaptionerConfig& c)
    : config(checked(c)),
      convolutions(children("convolutions", c.convolutions + 1,
                            [&](int64_t i) { return make_convolution(c, i); })),
      first(child("first",
                  nn::Linear(c.features(), c.cell == Recurrence::lstm ? 2 * c.hidden : c.hidden))),
      words(child("words", nn::Embedding(c.vocab, c.dim))),
      dropout(c.dropout),
      attention(child("attention", nn::Attention(nn::Score::additive, c.hidden, c.features()))),
      gate(child("gate", nn::Linear(c.hidden, c.features()))),
      cell(child("cell", make_cell(c))),
      readout(child("readout", nn::Linear(c.hidden + c.features(), c.dim))),
      head(child("head", nn::Linear(c.dim, c.vocab, {.hidden = false}))) {
  for (nn::Conv2d& conv : convolutions) conv.initialise_for_relu();
}

Tensor Captioner::annotations(const Tensor& images) const {
  check(images.defined() && images.rank() == 4 && images.size(0) >= 1 &&
            images.shape() == Shape{images.size(0), config.channels, config.image, config.image},
        "Captioner: expected images (B, ", config.channels, ", ", config.image, ", ", config.image,
        "), got ", images.defined() ? images.shape() : Shape{});
  Tensor x = images;
  for (const nn::Conv2d& conv : convolutions) x = relu(conv(x));
  return x.flatten(2).transpose(1, 2).contiguous();
}

Captioner::State Captioner::encode(const Tensor& images) const {
  const Tensor a = annotations(images);
  const Tensor start = first(mean(a, 1), Activation::tanh);  // (B, hidden), LSTM (B, 2 hidden)
  const auto states = start.split(config.hidden, -1);
  return {a, attention.prepare(a), {states[0], states.size() > 1 ? states[1] : Tensor()}};
}

/// Attends with the previous state as the query, then updates it by one word: embedded (B, dim).
Captioner::Step Captioner::step(const Tensor& embedded, State& state) const {
  const Tensor& h = state.cell.h;
  const nn::AttentionResult attended =
      attention.attend(h.unsqueeze(1), state.keys, state.annotations);
  const Tensor z = gate(h, Activation::sigmoid) * attended.output.squeeze(1);
  state.cell = cell(cat({embedded, z}, -1), state.cell);
  return {state.cell.h, z, attended.weights.squeeze(1)};
}

Tensor Captioner::logits(const Tensor& states, const Tensor& contexts,
                         const Tensor& embedded) const {
  return head(dropout(embedded + readout(cat({states, contexts}, -1))));
}

Captioner::Steps Captioner::unroll(const Tensor& images, const Tensor& ids) const {
  internal::check_ids("Captioner", "words", ids);
  State state = encode(images);
  check(ids.size(0) == images.size(0), "Captioner: ", images.size(0), " images, ", ids.size(0),
        " captions");
  check(ids.size(1) <= config.context, "Captioner: ", ids.size(1),
        " tokens do not fit a context of ", config.context);
  const Tensor embedded = dropout(words(ids));
  std::vector<Tensor> states, contexts, weights;
  for (const Tensor& x : unbind(embedded, 1)) {
    const Step s = step(x, state);
    states.push_back(s.state);
    contexts.push_back(s.context);
    weights.push_back(s.weights);
  }
  return {logits(stack(states, 1), stack(contexts, 1), embedded), stack(weights, 1)};
}

Tensor Captioner::operator()(const Tensor& images, const Tensor& ids) const {
  return unroll(images, ids).logits;
}

Tensor Captioner::loss(const Tensor& images, const TextBatch& captions) const {
  const Tensor lengths = detail::checked_lengths("Captioner", captions, config.context + 1);
  const int64_t B = captions.ids.size(0), T = captions.ids.size(1) - 1;
  check(min(lengths).item<int64_t>() >= 2,
        "Captioner: expected captions of at least [START] and [END]");
  const Steps steps = unroll(images, captions.ids.slice(1, 0, T));
  const Tensor real = arange(T) < (lengths - 1.0).reshape({B, 1});  // (B, T)
  const Tensor targets = masked_fill(captions.ids.slice(1, 1), !real, -100);
  const Tensor cross = cross_entropy(steps.logits, targets);
  if (config.coverage == 0) return cross;
  const Tensor total = sum(steps.weights * real.to(steps.weights.dtype()).unsqueeze(-1), 1);
  return cross + config.coverage * mean(pow(1.0 - total, 2));
}

Tensor Captioner::attention_maps(const Tensor& images, const Tensor& ids) const {
  const NoGrad no_grad;
  const EvalMode eval;
  return unroll(images, ids)
      .weights.reshape({ids.size(0), ids.size(1), config.grid(), config.grid()});
}

// ---- decoding ----

CaptionerDecoder Captioner::decoder(const Tensor& images, int64_t beams) const& {
  return CaptionerDecoder(*this, images, beams);
}

std::vector<Hypothesis> Captioner::captions(const Tensor& images,
                                            const BeamSearchOptions& options) const {
  const NoGrad no_grad;
  const EvalMode eval;
  CaptionerDecoder decoder(*this, images, options.beams);
  std::vector<Hypothesis> best;
  for (auto& found : beam_search(decoder, images.size(0), options))
    best.push_back(std::move(found.front()));
  return best;
}

CaptionerDecoder::CaptionerDecoder(const Captioner& model, const Tensor& images, int64_t beams)
    : model_(&model), state_(model.encode(images)) {
  rows_ = {"Captioner", images.size(0), beams};
  const Tensor rows = rows_.index();
  internal::select_rows({&state_.annotations, &state_.keys}, rows);
  first_ = state_.cell = select(state_.cell, rows);
}

Tensor CaptionerDecoder::next_logits(const Tensor& ids) {
  rows_.check_next(ids, room());
  const Tensor embedded = model_->dropout(model_->words(ids));
  Captioner::Step last;
  for (const Tensor& x : unbind(embedded, 1)) last = model_->step(x, state_);
  read_ += ids.size(1);
  return model_->logits(last.state, last.context, embedded.select(1, -1));
}

void CaptionerDecoder::reorder(const Tensor& rows) {
  const bool images_changed = rows_.reorder(rows);
  state_.cell = select(state_.cell, rows);
  if (!images_changed) return;
  first_ = select(first_, rows);
  internal::select_rows({&state_.annotations, &state_.keys}, rows);
}

void CaptionerDecoder::clear() {
  state_.cell = first_;
  read_ = 0;
}

}  // namespace gradus::models
