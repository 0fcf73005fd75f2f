#include "gradus/core/ops/recurrent.h"

#include <numeric>

#include "gradus/core/kernels/recurrent.h"
#include "gradus/core/ops/activation_table.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

namespace {

/// Calls f with the cell's struct from kernels/recurrent.h.
template <class F>
auto with_cell(Recurrence cell, F&& f) {
  if (cell == Recurrence::rnn_tanh) return f(kernel::Rnn<Tanh>{});
  if (cell == Recurrence::rnn_relu) return f(kernel::Rnn<Relu>{});
  if (cell == Recurrence::lstm) return f(kernel::Lstm{});
  check(cell == Recurrence::gru, "recurrent: unknown cell ", int(cell));
  return f(kernel::Gru{});
}

/// Inputs of a run over all steps. A single step is a run with T = 1, z_gates and no weight.
enum Input { x_gates, z_gates, the_weight, the_bias, first_h, first_c, input_count };
using Inputs = std::vector<Tensor>;  // undefined where absent

struct Problem {
  Recurrence cell;
  bool given[input_count];  // which inputs are defined
  kernel::Sequences sequences;
  bool padded;

  bool lstm() const { return cell == Recurrence::lstm; }
  bool gru() const { return cell == Recurrence::gru; }
};

// ---- the composed form ----

RecurrentState composed_cell(Recurrence cell, const Tensor& x, const Tensor& z,
                             const RecurrentState& s) {
  if (cell == Recurrence::rnn_tanh) return {tanh(x + z), {}};
  if (cell == Recurrence::rnn_relu) return {relu(x + z), {}};
  if (cell == Recurrence::lstm) {
    const auto sums = (x + z).chunk(4, -1);
    const Tensor i = sigmoid(sums[0]), f = sigmoid(sums[1]), o = sigmoid(sums[3]);
    const Tensor c = f * s.c + i * tanh(sums[2]);
    return {o * tanh(c), c};
  }
  const auto from_x = x.chunk(3, -1), from_h = z.chunk(3, -1);
  const Tensor r = sigmoid(from_x[0] + from_h[0]), u = sigmoid(from_x[1] + from_h[1]);
  const Tensor n = tanh(from_x[2] + r * from_h[2]);
  return {(1.0 - u) * n + u * s.h, {}};
}

/// The output, h and, for LSTM, c.
std::vector<Tensor> composed(const Problem& p, const Inputs& in) {
  const int64_t B = in[x_gates].size(0), T = in[x_gates].size(1), H = p.sequences.hidden;
  const Tensor lengths = from_data(p.sequences.lengths, {B, 1});
  const Tensor padding = le(lengths, arange(T)).unsqueeze(2);  // (B, T, 1)
  const auto xs = unbind(masked_fill(in[x_gates], padding, 0), 1);
  RecurrentState s{in[first_h], in[first_c]};
  if (!s.h.defined()) s.h = zeros({B, H}, xs[0].dtype());
  if (!s.c.defined()) s.c = zeros({B, H}, xs[0].dtype());
  std::vector<Tensor> ys(xs.size());
  for (int64_t step = 0; step < T; ++step) {
    const auto t = static_cast<size_t>(p.sequences.reverse ? T - 1 - step : step);
    Tensor z = in[z_gates];
    if (p.given[the_weight]) z = matmul(s.h, in[the_weight].mT());
    if (p.given[the_bias]) z = z + in[the_bias];
    const Tensor over = padding.select(1, static_cast<int64_t>(t));
    const RecurrentState next = composed_cell(p.cell, xs[t], z, s);
    ys[t] = masked_fill(next.h, over, 0);
    s.h = where(over, s.h, next.h);
    if (p.lstm()) s.c = where(over, s.c, next.c);
  }
  std::vector<Tensor> outputs{stack(ys, 1), s.h};
  if (p.lstm()) outputs.push_back(s.c);
  return outputs;
}

// ---- the kernels ----

/// Calls f(the cell's struct, a TypeTag, the packed weight). The weight (G, H) is packed for the
/// products h W^T, if `transposed`, or dz W. Without a weight, f gets null.
template <class F>
void with_kernel(const Problem& p, Dtype dtype, const Tensor& weight, bool transposed, F&& f) {
  with_cell(p.cell, [&](auto kind) {
    dispatch_floating("recurrent", dtype, [&]<class T>(TypeTag<T>) {
      if (!weight.defined())
        return f(kind, TypeTag<T>{}, static_cast<kernel::PackedMatrix<T>*>(nullptr));
      const int64_t k = weight.size(transposed ? 1 : 0), n = weight.size(transposed ? 0 : 1);
      const auto& lengths = p.sequences.lengths;
      const double steps = std::accumulate(lengths.begin(), lengths.end(), 0.0);
      ProfileScope::count(2 * steps * static_cast<double>(k * n), 0);
      const kernel::PackedMatrix<T> packed(weight.data<T>(), transposed, k, n);
      f(kind, TypeTag<T>{}, &packed);
    });
  });
}

/// What backward needs besides inputs and outputs: `gates` (B, T, kept H), as the cell's struct
/// defines `kept`, and LSTM's c (B, T, H).
struct Kept {
  Tensor gates, c;
};

void run_forward(const Problem& p, const Inputs& in, const std::vector<Tensor>& out,
                 const Kept& kept) {
  Inputs x;
  for (const Tensor& t : in) x.push_back(dense(t));
  const int64_t G = x[x_gates].size(2);
  const Tensor& z = p.given[z_gates] ? x[z_gates] : x[the_bias];
  with_kernel(
      p, out[0].dtype(), x[the_weight], true,
      [&]<class Cell, class T>(Cell, TypeTag<T>, auto weight) {
        auto at = [](const Tensor& t) { return data_or_null<T>(t); };
        kernel::recurrent_forward<Cell, T>(
            p.sequences, weight,
            {at(x[x_gates]), at(z), p.given[z_gates] ? G : 0, at(x[first_h]), at(x[first_c]),
             at(out[0]), at(out[1]), p.lstm() ? at(out[2]) : nullptr, at(kept.gates), at(kept.c)});
      });
}

void run_backward(Backward& back, const Problem& p, const Kept& kept) {
  auto input = [&](int i) { return p.given[i] ? dense(back.input(i)) : Tensor(); };
  auto arrived = [&](int i) { return back.has_grad(i) ? back.grad(i).contiguous() : Tensor(); };
  const Tensor y = back.output().detach(), h0 = input(first_h), c0 = input(first_c);
  const Tensor w = input(the_weight), dy = arrived(0), dh_last = arrived(1);
  const Tensor dc_last = p.lstm() ? arrived(2) : Tensor();
  // At padding, the gradients and h_before are 0.
  auto room = [&](bool needed, const Shape& shape) {
    return !needed ? Tensor() : p.padded ? zeros(shape, y.dtype()) : empty(shape, y.dtype());
  };
  const Shape gates = back.input_shape(x_gates);
  Tensor dx = p.padded ? Tensor() : take_input(back, x_gates);  // dx may overwrite x
  dx = dx.defined() && dx.is_contiguous() ? dx.detach() : room(true, gates);
  const Tensor dz = p.gru() ? room(true, gates) : dx;
  const Tensor h_before = room(back.needs(the_weight), y.shape());
  const Tensor dh0 = room(back.needs(first_h), h0.defined() ? h0.shape() : Shape{});
  const Tensor dc0 = room(back.needs(first_c), c0.defined() ? c0.shape() : Shape{});
  with_kernel(p, y.dtype(), w, false, [&]<class Cell, class T>(Cell, TypeTag<T>, auto weight) {
    auto at = [](const Tensor& t) { return data_or_null<T>(t); };
    kernel::recurrent_backward<Cell, T>(
        p.sequences, weight,
        {at(h0), at(c0), at(y), at(kept.gates), at(kept.c), at(dy), at(dh_last), at(dc_last),
         at(dx), at(dz), at(dh0), at(dc0), at(h_before)});
  });
  if (h_before.defined())
    back.give(the_weight, matmul(dz.flatten(0, 1).mT(), h_before.flatten(0, 1)));
  if (back.needs(the_bias)) back.give(the_bias, sum(dz, {0, 1}));
  if (back.needs(z_gates)) back.give(z_gates, dz.squeeze(1));
  if (dh0.defined()) back.give(first_h, dh0);
  if (dc0.defined()) back.give(first_c, dc0);
  back.give(x_gates, std::move(dx));
}

/// Throws Error unless the given inputs have matching shapes and dtypes.
void check_inputs(const char* op, const Problem& p, const Inputs& in) {
  const Tensor& x = in[x_gates];
  const int64_t H = p.sequences.hidden, G = gates_of(p.cell) * H;
  check_floating(op, x);
  const Shape state{x.size(0), H};
  const std::pair<const char*, Shape> expected[] = {{"x_gates", {x.size(0), x.size(1), G}},
                                                    {"h_gates", {x.size(0), G}},
                                                    {"weight", {G, H}},
                                                    {"bias", {G}},
                                                    {"h", state},
                                                    {"c", state}};
  for (int i = 0; i < input_count; ++i) {
    if (!p.given[i]) continue;
    const Tensor& t = in[static_cast<size_t>(i)];
    const auto& [name, shape] = expected[i];
    check_tensor(op, name, t, x.dtype(), shape);
  }
  check(!p.given[first_c] || p.lstm(), op, ": only LSTM has a state c");
  for (const int64_t n : p.sequences.lengths)
    check(n >= 1 && n <= x.size(1), op, ": expected lengths from 1 to ", x.size(1), ", got ", n);
}

/// Runs the cell over all steps. Returns the output, the final h and, for LSTM, the final c.
/// `hidden` is H.
std::vector<Tensor> run(const char* op, Recurrence cell, const Inputs& in, int64_t hidden,
                        const RecurrentOptions& options) {
  const Tensor& x = in[x_gates];
  const int64_t B = x.size(0), T = x.size(1), H = hidden;
  Problem p{cell,
            {},
            {T, H, std::vector<int64_t>(static_cast<size_t>(B), T), options.reverse},
            options.lengths.defined()};
  for (size_t i = 0; i < input_count; ++i) p.given[i] = in[i].defined();
  if (const Tensor& lengths = options.lengths; p.padded) {
    check_tensor(op, "lengths", lengths, int64, {B});
    p.sequences.lengths = lengths.to_vector<int64_t>();
  }
  check_inputs(op, p, in);
  std::vector<Tensor> out{p.padded ? zeros({B, T, H}, x.dtype()) : empty({B, T, H}, x.dtype()),
                          empty({B, H}, x.dtype())};
  if (p.lstm()) out.push_back(empty({B, H}, x.dtype()));
  Kept kept;
  const int64_t keeps = with_cell(cell, [](auto kind) { return kind.kept; });
  if (Recorder::should_record(in) && keeps > 0) kept.gates = empty({B, T, keeps * H}, x.dtype());
  if (Recorder::should_record(in) && p.lstm()) kept.c = empty({B, T, H}, x.dtype());
  run_forward(p, in, out, kept);
  record_fused(
      op, out, in, Saves{0, 1}, [p](auto& inputs) { return composed(p, inputs); },
      [p, kept](Backward& back) { run_backward(back, p, kept); });
  return out;
}

/// Computes one step and returns the state after it.
RecurrentState run_cell(const char* op, Recurrence cell, const Tensor& x, const Tensor& z,
                        const RecurrentState& before) {
  const ProfileScope scope(op);
  const int64_t gates = gates_of(cell);
  check_shape(op, "x_gates", x, {"B", "G H"});
  check(x.size(1) % gates == 0, op, ": expected x_gates (B, ", gates, " H), got ", x.shape());
  const bool reads =
      cell == Recurrence::lstm ? before.c.defined() : cell != Recurrence::gru || before.h.defined();
  check(z.defined() && reads, op, ": expected h_gates and the state before, got none");
  const auto out =
      run(op, cell,
          {x.unsqueeze(1), z, {}, {}, cell == Recurrence::gru ? before.h : Tensor(), before.c},
          x.size(1) / gates, {});
  return {out[1], out.size() > 2 ? out[2] : Tensor()};
}

}  // namespace

int64_t core::gates_of(Recurrence cell) {
  return with_cell(cell, [](auto kind) { return kind.gates; });
}

RecurrentState core::recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                                    const RecurrentState& state) {
  if (cell == Recurrence::lstm) return run_cell("lstm_cell", cell, x_gates, h_gates, {{}, state.c});
  if (cell == Recurrence::gru) return run_cell("gru_cell", cell, x_gates, h_gates, {state.h, {}});
  return run_cell("rnn_cell", cell, x_gates, h_gates, {});
}

Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates, Activation activation) {
  const bool rectified = activation == Activation::relu;
  check(rectified || activation == Activation::tanh, "rnn_cell: expected tanh or relu, got ",
        name_of(activation));
  return recurrent_cell(rectified ? Recurrence::rnn_relu : Recurrence::rnn_tanh, x_gates, h_gates,
                        {})
      .h;
}
RecurrentState lstm_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& c) {
  return recurrent_cell(Recurrence::lstm, x_gates, h_gates, {{}, c});
}
Tensor gru_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& h) {
  return recurrent_cell(Recurrence::gru, x_gates, h_gates, {h, {}}).h;
}

RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias, const RecurrentState& first,
                          const RecurrentOptions& options) {
  const ProfileScope scope("recurrent");
  const int64_t gates = gates_of(cell);
  check_shape("recurrent", "weight", weight, {"G H", "H"});
  const int64_t hidden = weight.size(1);
  check(hidden > 0, "recurrent: expected at least one hidden unit, got weight ", weight.shape());
  check_shape("recurrent", "weight", weight, {gates * hidden, hidden});
  check_shape("recurrent", "x_gates", x_gates, {"B", "T", gates * hidden});
  check(x_gates.size(1) > 0, "recurrent: expected at least one step, got x_gates ",
        x_gates.shape());
  const auto out =
      run("recurrent", cell, {x_gates, {}, weight, bias, first.h, first.c}, hidden, options);
  return {out[0], {out[1], out.size() > 2 ? out[2] : Tensor()}};
}

}  // namespace gradus
