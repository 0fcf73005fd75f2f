#include "gradus/models/rnn_translator.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/attention.h"

namespace gradus::models {

namespace {
RNNTranslatorConfig checked(RNNTranslatorConfig c) {
  RNNTranslator::fields(c).check("RNNTranslator");
  check(c.hidden % 2 == 0, "RNNTranslator: hidden must be even, half for each direction, got ",
        c.hidden);
  return c;
}

/// Returns relu for rnn_relu, else tanh.
Activation nonlinearity(Recurrence cell) {
  return cell == Recurrence::rnn_relu ? Activation::relu : Activation::tanh;
}

nn::RecurrentLayers make_encoder(const RNNTranslatorConfig& c) {
  const nn::RNNOptions options{.layers = c.layers,
                               .bidirectional = true,
                               .dropout = c.layers > 1 ? c.dropout : 0,
                               .nonlinearity = nonlinearity(c.cell)};
  if (c.cell == Recurrence::lstm) return nn::LSTM(c.dim, c.hidden / 2, options);
  if (c.cell == Recurrence::gru) return nn::GRU(c.dim, c.hidden / 2, options);
  return nn::RNN(c.dim, c.hidden / 2, options);
}

nn::RecurrentCell make_cell(const RNNTranslatorConfig& c, int64_t layer) {
  const int64_t input = layer == 0 ? c.dim + c.hidden : c.hidden;
  if (c.cell == Recurrence::lstm) return nn::LSTMCell(input, c.hidden);
  if (c.cell == Recurrence::gru) return nn::GRUCell(input, c.hidden);
  return nn::RNNCell(input, c.hidden, {.nonlinearity = nonlinearity(c.cell)});
}
}  // namespace

Fields RNNTranslator::fields(RNNTranslatorConfig& c) {
  Fields fields;
  fields.add("source_vocab", c.source_vocab, 1, 1e9, "vocabulary size of the source");
  fields.add("target_vocab", c.target_vocab, 1, 1e9, "vocabulary size of the target");
  fields.add("context", c.context, 1, 1e6, "maximum length of a target");
  fields.add("layers", c.layers, 1, 1000, "layers of encoder and of decoder");
  fields.add("dim", c.dim, 1, 1e6, "embedding size");
  fields.add("hidden", c.hidden, 2, 1e6, "size of the decoder's state, even");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("cell", c.cell, {"rnn", "relu", "lstm", "gru"}, "kind of recurrent cell");
  fields.add("score", c.score, {"dot", "scaled_dot", "bilinear", "additive"},
             "attention score function");
  return fields;
}

RNNTranslator::RNNTranslator(const RNNTranslatorConfig& c)
    : config(checked(c)),
      source_embedding(child("source_embedding", nn::Embedding(c.source_vocab, c.dim))),
      target_embedding(child("target_embedding", nn::Embedding(c.target_vocab, c.dim))),
      dropout(c.dropout),
      encoder(child("encoder", make_encoder(c))),
      bridge(child("bridge", nn::Linear(c.hidden, c.layers * c.hidden))),
      attention(child("attention", nn::Attention(c.score, c.hidden, c.hidden))),
      cells(children("cells", c.layers, [&](int64_t layer) { return make_cell(c, layer); })),
      readout(child("readout", nn::Linear(2 * c.hidden + c.dim, c.dim))),
      head(child("head", nn::Linear(c.dim, c.target_vocab, {.hidden = false}))) {}

RNNTranslator::State RNNTranslator::encode(const Tensor& source, const Tensor& lengths) const {
  internal::check_ids("RNNTranslator", "source ids", source);
  const int64_t B = source.size(0), S = source.size(1), H = config.hidden;
  const Tensor mask = nn::padding_mask(lengths, B, S);
  const auto [annotations, last] =
      encoder(dropout(source_embedding(source)), {}, lengths);  // last.h (2 layers, B, H/2)
  const Tensor both = cat({last.h[-2], last.h[-1]}, -1);        // both directions of the last layer
  const Tensor first = bridge(both, Activation::tanh);          // (B, layers H)
  State state{annotations,
              attention.prepare(annotations),
              mask.defined() ? mask.reshape({B, 1, S}) : mask,
              {}};
  for (const Tensor& h : first.split(H, -1)) state.layers.push_back({h, {}});
  return state;
}

/// Attends with the previous state as the query, then updates it by one word: embedded (B, dim).
RNNTranslator::Step RNNTranslator::step(const Tensor& embedded, State& state) const {
  const Tensor query = state.layers.back().h.unsqueeze(1);
  const Tensor context =
      attention.attend(query, state.keys, state.annotations, state.mask).output.squeeze(1);
  Tensor x = cat({embedded, context}, -1);
  for (size_t i = 0; i < cells.size(); ++i) {
    state.layers[i] = cells[i](x, state.layers[i]);
    x = i + 1 < cells.size() ? dropout(state.layers[i].h) : state.layers[i].h;
  }
  return {x, context};
}

Tensor RNNTranslator::logits(const Tensor& states, const Tensor& contexts,
                             const Tensor& embedded) const {
  return head(dropout(readout(cat({states, contexts, embedded}, -1), Activation::tanh)));
}

Tensor RNNTranslator::operator()(const Tensor& source, const Tensor& lengths,
                                 const Tensor& target) const {
  internal::check_ids("RNNTranslator", "source ids", source);
  internal::check_ids("RNNTranslator", "target ids", target);
  check(source.size(0) == target.size(0), "RNNTranslator: ", source.size(0), " sources, ",
        target.size(0), " targets");
  check(target.size(1) <= config.context, "RNNTranslator: ", target.size(1),
        " tokens do not fit a context of ", config.context);
  State state = encode(source, lengths);
  const Tensor embedded = dropout(target_embedding(target));
  std::vector<Tensor> states, contexts;
  for (const Tensor& x : unbind(embedded, 1)) {
    const Step s = step(x, state);
    states.push_back(s.state);
    contexts.push_back(s.context);
  }
  return logits(stack(states, 1), stack(contexts, 1), embedded);
}

Tensor RNNTranslator::loss(const PairBatch& batch, double label_smoothing) const {
  return cross_entropy((*this)(batch.source, batch.source_lengths, batch.inputs), batch.targets,
                       {.label_smoothing = label_smoothing});
}

Tensor RNNTranslator::alignment(const Tensor& source, const Tensor& lengths,
                                const Tensor& target) const {
  const NoGrad no_grad;
  const EvalMode eval;
  const AttentionTrace trace;
  (*this)(source, lengths, target);
  return cat(trace.weights(), 2).squeeze(1);
}

// ---- decoding ----

RNNTranslatorDecoder RNNTranslator::decoder(const Tensor& source, const Tensor& lengths,
                                            int64_t beams) const& {
  return RNNTranslatorDecoder(*this, source, lengths, beams);
}

namespace {
/// Selects rows of a state.
std::vector<RecurrentState> select(const std::vector<RecurrentState>& layers, const Tensor& rows) {
  std::vector<RecurrentState> out;
  for (const auto& [h, c] : layers)
    out.push_back({index_select(h, 0, rows), c.defined() ? index_select(c, 0, rows) : c});
  return out;
}
}  // namespace

RNNTranslatorDecoder::RNNTranslatorDecoder(const RNNTranslator& model, const Tensor& source,
                                           const Tensor& lengths, int64_t beams)
    : model_(&model) {
  internal::check_ids("RNNTranslator", "source ids", source);
  rows_ = {"RNNTranslator", source.size(0), beams};
  state_ = model.encode(source, lengths);
  internal::select_rows({&state_.annotations, &state_.keys, &state_.mask}, rows_.index());
  first_ = state_.layers = select(state_.layers, rows_.index());
}

Tensor RNNTranslatorDecoder::next_logits(const Tensor& ids) {
  rows_.check_next(ids, room());
  const Tensor embedded = model_->dropout(model_->target_embedding(ids));
  RNNTranslator::Step last;
  for (const Tensor& x : unbind(embedded, 1)) last = model_->step(x, state_);
  read_ += ids.size(1);
  return model_->logits(last.state, last.context, embedded.select(1, -1));
}

void RNNTranslatorDecoder::reorder(const Tensor& rows) {
  const bool sources_changed = rows_.reorder(rows);
  state_.layers = select(state_.layers, rows);
  if (!sources_changed) return;
  first_ = select(first_, rows);
  internal::select_rows({&state_.annotations, &state_.keys, &state_.mask}, rows);
}

void RNNTranslatorDecoder::clear() {
  state_.layers = first_;
  read_ = 0;
}

}  // namespace gradus::models
