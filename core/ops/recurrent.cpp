#include "gradus/core/ops/recurrent.h"

#include "gradus/core/autograd.h"
#include "gradus/core/blas.h"
#include "gradus/core/internal.h"
#include "gradus/core/kernels/recurrent.h"
#include "gradus/core/ops/activation_table.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/profiler.h"
#include "gradus/core/reuse.h"

namespace gradus {

namespace {

/// f(the cell's struct in kernels/recurrent.h).
template <class F>
auto with_cell(Recurrence cell, F&& f) {
  switch (cell) {
    case Recurrence::rnn_tanh:
      return f(kernel::Rnn<Tanh>{});
    case Recurrence::rnn_relu:
      return f(kernel::Rnn<Relu>{});
    case Recurrence::lstm:
      return f(kernel::Lstm{});
    case Recurrence::gru:
      break;
  }
  check(cell == Recurrence::gru, "recurrent: no cell has the number ", int(cell));
  return f(kernel::Gru{});
}

/// f(the cell's struct, a TypeTag).
template <class F>
void dispatch(Recurrence cell, Dtype dtype, F&& f) {
  with_cell(cell, [&](auto kind) {
    dispatch_floating("recurrent", dtype, [&](auto tag) { f(kind, tag); });
  });
}

int64_t kept_of(Recurrence cell) {
  return with_cell(cell, [](auto kind) { return kind.kept; });
}

/// The outputs of an op that gives h and, of LSTM, c.
std::vector<Tensor> list_of(const RecurrentState& s) {
  return s.c.defined() ? std::vector<Tensor>{s.h, s.c} : std::vector<Tensor>{s.h};
}

// ---- the composed forms ----

RecurrentState composed_cell(Recurrence cell, const Tensor& x, const Tensor& z,
                             const RecurrentState& s) {
  if (cell == Recurrence::rnn_tanh) return {tanh(x + z), {}};
  if (cell == Recurrence::rnn_relu) return {relu(x + z), {}};
  const int64_t gates = gates_of(cell);
  if (cell == Recurrence::lstm) {
    const auto sums = (x + z).chunk(gates, -1);
    const Tensor i = sigmoid(sums[0]), f = sigmoid(sums[1]), o = sigmoid(sums[3]);
    const Tensor c = f * s.c + i * tanh(sums[2]);
    return {o * tanh(c), c};
  }
  const auto from_x = x.chunk(gates, -1), from_h = z.chunk(gates, -1);
  const Tensor r = sigmoid(from_x[0] + from_h[0]), u = sigmoid(from_x[1] + from_h[1]);
  const Tensor n = tanh(from_x[2] + r * from_h[2]);
  return {(1.0 - u) * n + u * s.h, {}};
}

/// `lengths` holds one a row.
RecurrentOutput composed_recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                                   const Tensor& bias, const RecurrentState& first,
                                   const Tensor& lengths, bool reverse) {
  const int64_t B = x_gates.size(0), T = x_gates.size(1), H = weight.size(1);
  const Tensor padding = le(lengths.unsqueeze(1), arange(T)).unsqueeze(2);  // (B, T, 1)
  const auto xs = unbind(masked_fill(x_gates, padding, 0), 1);
  RecurrentState s = first;
  if (!s.h.defined()) s.h = zeros({B, H}, x_gates.dtype());
  if (!s.c.defined() && cell == Recurrence::lstm) s.c = zeros({B, H}, x_gates.dtype());
  std::vector<Tensor> ys(xs.size());
  for (int64_t step = 0; step < T; ++step) {
    const int64_t t = reverse ? T - 1 - step : step;
    const Tensor over = padding.select(1, t), z = matmul(s.h, weight.mT());
    const RecurrentState next =
        composed_cell(cell, xs[static_cast<size_t>(t)], bias.defined() ? z + bias : z, s);
    ys[static_cast<size_t>(t)] = masked_fill(next.h, over, 0);
    s.h = where(over, s.h, next.h);
    if (s.c.defined()) s.c = where(over, s.c, next.c);
  }
  return {stack(ys, 1), s};
}

/// x (m, n) with each row in one piece.
Tensor whole_rows(const Tensor& x) {
  return x.size(1) <= 1 || x.strides().back() == 1 ? x : x.contiguous();
}

/// An input's numbers in row-major order, or none.
Tensor dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

}  // namespace

int64_t core::gates_of(Recurrence cell) {
  return with_cell(cell, [](auto kind) { return kind.gates; });
}

// ---- one step ----

namespace {

constexpr int64_t cell_grain = 1 << 13;  // hidden units that are worth a thread's while

void check_cell(const char* op, Recurrence cell, const Tensor& x, const Tensor& z,
                const Tensor& before) {
  const int64_t gates = gates_of(cell);
  check(is_floating(x.dtype()) && z.dtype() == x.dtype(), op,
        ": expected float32 or float64, one of them throughout, got ", x.dtype(), " and ",
        z.dtype());
  check(x.rank() == 2 && z.shape() == x.shape() && x.size(1) % gates == 0, op,
        ": expected x_gates and h_gates (B, ", gates, " H), got ", x.shape(), " and ", z.shape());
  if (gates == 1) return;
  const Shape expected{x.size(0), x.size(1) / gates};
  check(before.defined() && before.shape() == expected && before.dtype() == x.dtype(), op,
        ": expected ", cell == Recurrence::lstm ? "c " : "h ", expected, " of ", x.dtype(),
        ", got ", before.defined() ? before.shape() : Shape{}, " of ",
        before.defined() ? name_of(before.dtype()) : "nothing");
}

/// Writes h and c; `kept` (B, kept H) may be undefined. `before`: c (LSTM), h (GRU).
void cell_forward(Recurrence cell, const Tensor& x, const Tensor& z, const Tensor& before,
                  const Tensor& kept, const RecurrentState& next) {
  const int64_t H = next.h.size(1), keeps = kept_of(cell);
  const Tensor xs = whole_rows(x), zs = whole_rows(z), last = dense(before);
  dispatch(cell, x.dtype(), [&](auto kind, auto tag) {
    using T = typename decltype(tag)::type;
    const T *px = xs.data<T>(), *pz = zs.data<T>(), *pb = data_or_null<T>(last);
    T *pk = data_or_null<T>(kept), *ph = next.h.data<T>(), *pc = data_or_null<T>(next.c);
    parallel_for(x.size(0), cell_grain / (H + 1), [&](int64_t begin, int64_t end) {
      const Scratch<T> unused(pk ? 0 : keeps * H);
      for (int64_t b = begin; b < end; ++b) {
        const T* before_b = kernel::row_or(pb, b, H, static_cast<const T*>(nullptr));
        T *h = ph + b * H, *c = kernel::row_or(pc, b, H, static_cast<T*>(nullptr));
        kind.forward(kernel::CellForward<T>{.H = H,
                                            .x = px + b * xs.strides()[0],
                                            .z = pz + b * zs.strides()[0],
                                            .h = before_b,
                                            .c = before_b,
                                            .kept = kernel::row_or(pk, b, keeps * H, unused.data()),
                                            .h_next = h,
                                            .h_again = h,
                                            .c_next = c,
                                            .c_again = c});
      }
    });
  });
}

/// Gives x_gates (0), h_gates (1) and what was before the step (2) their gradients.
void cell_backward(Backward& back, Recurrence cell, const Tensor& kept) {
  const bool lstm = cell == Recurrence::lstm, gru = cell == Recurrence::gru;
  const Tensor h = back.output(0).detach(), c = lstm ? back.output(1).detach() : Tensor();
  const Tensor before = lstm || gru ? dense(back.input(2).detach()) : Tensor();
  const Tensor dy = back.grad(0).contiguous();
  const Tensor dc = !lstm              ? Tensor()
                    : back.has_grad(1) ? back.grad(1).clone()
                                       : zeros(h.shape(), h.dtype());
  const Tensor dz = empty(back.input_shape(0), h.dtype()), dx = gru ? empty_like(dz) : dz;
  const Tensor dh = zeros(h.shape(), h.dtype());
  const int64_t H = h.size(1), gates = gates_of(cell) * H, keeps = kept_of(cell) * H;
  dispatch(cell, h.dtype(), [&](auto kind, auto tag) {
    using T = typename decltype(tag)::type;
    const T *pk = data_or_null<T>(kept), *ph = h.data<T>(), *pc = data_or_null<T>(c);
    const T *pb = data_or_null<T>(before), *py = dy.data<T>();
    T *pz = dz.data<T>(), *px = dx.data<T>(), *pdh = dh.data<T>(), *pdc = data_or_null<T>(dc);
    parallel_for(h.size(0), cell_grain / (H + 1), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const T* before_b = kernel::row_or(pb, b, H, static_cast<const T*>(nullptr));
        kind.backward(
            kernel::CellBackward<T>{.H = H,
                                    .kept = pk + b * keeps,
                                    .h_before = before_b,
                                    .c_before = before_b,
                                    .h = ph + b * H,
                                    .c = kernel::row_or(pc, b, H, static_cast<const T*>(nullptr)),
                                    .dy = py + b * H,
                                    .dh = pdh + b * H,
                                    .dc = kernel::row_or(pdc, b, H, static_cast<T*>(nullptr)),
                                    .dz = pz + b * gates,
                                    .dx_n = px + (b + 1) * gates - H});
        if (px != pz) std::copy_n(pz + b * gates, gates - H, px + b * gates);
      }
    });
  });
  back.give(0, dx);
  back.give(1, dz);
  if (lstm || gru) back.give(2, lstm ? dc : dh);
}

RecurrentState run_cell(const char* op, Recurrence cell, const Tensor& x_gates,
                        const Tensor& h_gates, const RecurrentState& state) {
  const ProfileScope scope(op);
  const bool lstm = cell == Recurrence::lstm, gru = cell == Recurrence::gru;
  const Tensor before = lstm ? state.c : gru ? state.h : Tensor();
  check_cell(op, cell, x_gates, h_gates, before);
  const int64_t B = x_gates.size(0), H = x_gates.size(1) / gates_of(cell);
  const Dtype dtype = x_gates.dtype();
  const RecurrentState next{empty({B, H}, dtype), lstm ? empty({B, H}, dtype) : Tensor()};
  const bool keep = (lstm || gru) && Recorder::wanted({x_gates, h_gates, before});
  const Tensor kept = keep ? empty({B, kept_of(cell) * H}, dtype) : Tensor();
  {
    const NoGrad no_grad;
    cell_forward(cell, x_gates, h_gates, before, kept, next);
  }
  std::vector<Tensor> inputs{x_gates, h_gates};
  if (before.defined()) inputs.push_back(before);
  record_fused(
      op, list_of(next), inputs, saves_output,
      [cell](const std::vector<Tensor>& in) {
        const Tensor before = in.size() > 2 ? in[2] : Tensor();
        return list_of(composed_cell(cell, in[0], in[1], {before, before}));
      },
      [cell, kept](Backward& back) { cell_backward(back, cell, kept); });
  return next;
}

}  // namespace

RecurrentState core::recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                                    const RecurrentState& state) {
  return run_cell(cell == Recurrence::lstm  ? "lstm_cell"
                  : cell == Recurrence::gru ? "gru_cell"
                                            : "rnn_cell",
                  cell, x_gates, h_gates, state);
}

Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates, Activation activation) {
  check(activation == Activation::tanh || activation == Activation::relu,
        "rnn_cell: expected tanh or relu, got ", name_of(activation));
  const bool rectified = activation == Activation::relu;
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

// ---- all steps ----

namespace {

/// What the kernels and the composed form both go by.
struct Plan {
  Recurrence cell;
  std::vector<int64_t> lengths;  // one a row
  bool reverse, has_h, has_c;    // given, not zeros

  kernel::Sequences sequences(const Shape& x_gates, int64_t hidden) const {
    return {x_gates[0], x_gates[1], hidden, lengths, reverse, x_gates[2] * hidden};
  }
  /// Counts the multiplications of `products` products of h with the weight at each step.
  void count_work(int64_t weight, int products) const {
    double steps = 0;
    for (const int64_t length : lengths) steps += static_cast<double>(length);
    ProfileScope::count(2.0 * products * static_cast<double>(weight) * steps, 0);
  }
};

void check_recurrent(Recurrence cell, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const RecurrentState& first) {
  constexpr const char* op = "recurrent";
  const int64_t gates = gates_of(cell);
  check(weight.rank() == 2 && weight.size(1) > 0 && weight.size(0) == gates * weight.size(1), op,
        ": expected a weight (", gates, " H, H), got ", weight.shape());
  check(x.rank() == 3 && x.size(2) == weight.size(0), op, ": expected x_gates (B, T, ",
        weight.size(0), ") for weight ", weight.shape(), ", got ", x.shape());
  check(x.size(1) > 0, op, ": expected at least one step, got x_gates ", x.shape());
  check(is_floating(x.dtype()), op, ": expected float32 or float64, got ", x.dtype());
  auto one_of = [&](const char* name, const Tensor& tensor, const Shape& shape) {
    if (!tensor.defined()) return;
    check(tensor.shape() == shape, op, ": expected ", name, " ", shape, ", got ", tensor.shape());
    check(tensor.dtype() == x.dtype(), op, ": expected ", name, " of ", x.dtype(), ", got ",
          tensor.dtype());
  };
  const Shape state{x.size(0), weight.size(1)};
  one_of("weight", weight, weight.shape());
  one_of("bias", bias, {weight.size(0)});
  one_of("h", first.h, state);
  one_of("c", first.c, state);
  check(!first.c.defined() || cell == Recurrence::lstm, op, ": only LSTM has a state c");
}

std::vector<int64_t> checked_lengths(const Tensor& lengths, int64_t batch, int64_t time) {
  if (!lengths.defined()) return std::vector<int64_t>(static_cast<size_t>(batch), time);
  check(lengths.dtype() == int64 && lengths.shape() == Shape{batch}, "recurrent: expected lengths ",
        Shape{batch}, " of int64, got ", lengths.shape(), " of ", lengths.dtype());
  auto list = lengths.to_vector<int64_t>();
  for (const int64_t n : list)
    check(n >= 1 && n <= time, "recurrent: expected lengths from 1 to ", time, ", got ", n);
  return list;
}

/// The kept gates (B, T, kept H) and c (B, T, H), undefined where the cell has none.
struct Kept {
  Tensor gates, c;
};

void run_forward(const Plan& plan, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const RecurrentState& first, const RecurrentOutput& out, const Kept& kept) {
  const NoGrad no_grad;
  const Tensor xs = dense(x), w = dense(weight), b = dense(bias);
  const Tensor h0 = dense(first.h), c0 = dense(first.c);
  const int64_t H = w.size(1);
  plan.count_work(w.numel(), 1);
  dispatch(plan.cell, x.dtype(), [&](auto kind, auto tag) {
    using T = typename decltype(tag)::type;
    const kernel::PackedMatrix<T> packed(w.data<T>(), true, H, w.size(0), data_or_null<T>(b));
    kernel::recurrent_forward<decltype(kind), T>(
        plan.sequences(xs.shape(), H), packed,
        {xs.data<T>(), data_or_null<T>(h0), data_or_null<T>(c0), out.output.data<T>(),
         out.state.h.data<T>(), data_or_null<T>(out.state.c), data_or_null<T>(kept.gates),
         data_or_null<T>(kept.c)});
  });
}

/// Adds dz^T h, over all rows and steps, to rows [row, row + n) of dw, where dz has them at
/// columns [col, col + n).
template <class T>
void add_weight_gradient(const Tensor& dz, int64_t col, int64_t n, const Tensor& h, bool add,
                         const Tensor& dw, int64_t row) {
  const int64_t rows = h.size(0) * h.size(1), H = h.size(2);
  blas::gemm(blas::Product<T>{.trans_a = true,
                              .m = n,
                              .n = H,
                              .k = rows,
                              .a = dz.data<T>() + col,
                              .lda = dz.size(2),
                              .b = h.data<T>(),
                              .ldb = H,
                              .c = dw.data<T>() + row * H,
                              .ldc = H,
                              .add = add});
}

/// Gives x_gates (0), the weight (1), the bias (2), h (3) and c (4) their gradients.
void run_backward(Backward& back, const Plan& plan, const Kept& kept) {
  const Tensor w = dense(back.input(1).detach()), y = back.output(0).detach();
  const Tensor h0 = plan.has_h ? dense(back.input(3).detach()) : Tensor();
  const Tensor c0 = plan.has_c ? dense(back.input(4).detach()) : Tensor();
  const int64_t B = y.size(0), T = y.size(1), H = y.size(2), n = w.size(0);
  const bool gru = plan.cell == Recurrence::gru, wants_weight = back.needs(1);
  const Dtype dtype = y.dtype();
  auto arrived = [&](int i) { return back.has_grad(i) ? back.grad(i).contiguous() : Tensor(); };
  const Tensor dy = arrived(0), dh_last = arrived(1);
  const Tensor dc_last = kept.c.defined() ? arrived(2) : Tensor();
  auto room = [&](bool wanted, const Shape& s) { return wanted ? empty(s, dtype) : Tensor(); };
  Tensor dx = take_input(back, 0);  // its numbers are not needed any more
  if (!dx.defined() || !dx.is_contiguous()) dx = empty({B, T, n}, dtype);
  dx = dx.detach();
  const Tensor dz_n = room(gru, {B, T, H}), h_before = room(wants_weight, {B, T, H});
  const Tensor dh0 = room(back.needs(3), {B, H}), dc0 = room(back.needs(4), {B, H});
  const Tensor total = wants_weight ? sum_in_place(back, 1) : Tensor();
  const Tensor dw = total.defined() ? total : room(wants_weight, w.shape());
  plan.count_work(w.numel(), 1);
  dispatch(plan.cell, dtype, [&](auto kind, auto tag) {
    using E = typename decltype(tag)::type;
    kernel::recurrent_backward<decltype(kind), E>(
        plan.sequences(dx.shape(), H), kernel::PackedMatrix<E>(w.data<E>(), false, n, H),
        {data_or_null<E>(h0), data_or_null<E>(c0), y.data<E>(), data_or_null<E>(kept.gates),
         data_or_null<E>(kept.c), data_or_null<E>(dy), data_or_null<E>(dh_last),
         data_or_null<E>(dc_last), dx.data<E>(), data_or_null<E>(dh0), data_or_null<E>(dc0),
         data_or_null<E>(dz_n), data_or_null<E>(h_before)});
    if (!wants_weight) return;
    const int64_t shared = gru ? n - H : n;  // the gates whose z has the gradient of x
    add_weight_gradient<E>(dx, 0, shared, h_before, total.defined(), dw, 0);
    if (gru) add_weight_gradient<E>(dz_n, 0, H, h_before, total.defined(), dw, shared);
  });
  if (wants_weight && !total.defined()) back.give(1, dw);
  if (back.needs(2)) {
    const Tensor sums = sum(dx, {0, 1});
    back.give(2, gru ? cat({sums.slice(0, 0, n - H), sum(dz_n, {0, 1})}) : sums);
  }
  if (dh0.defined()) back.give(3, dh0);
  if (dc0.defined()) back.give(4, dc0);
  back.give(0, std::move(dx));
}

}  // namespace

RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias, const RecurrentState& first,
                          const RecurrentOptions& options) {
  const ProfileScope scope("recurrent");
  check_recurrent(cell, x_gates, weight, bias, first);
  const int64_t B = x_gates.size(0), T = x_gates.size(1), H = weight.size(1);
  const Plan plan{cell, checked_lengths(options.lengths, B, T), options.reverse, first.h.defined(),
                  first.c.defined()};
  const bool lstm = cell == Recurrence::lstm;
  auto room = [&](bool wanted, const Shape& s) {
    return wanted ? empty(s, x_gates.dtype()) : Tensor();
  };
  const RecurrentOutput out{room(true, {B, T, H}), {room(true, {B, H}), room(lstm, {B, H})}};
  const bool recording = Recorder::wanted({x_gates, weight, bias, first.h, first.c});
  const int64_t keeps = kept_of(cell);
  const Kept kept{room(recording && keeps > 0, {B, T, keeps * H}),
                  room(recording && lstm, {B, T, H})};
  run_forward(plan, x_gates, weight, bias, first, out, kept);
  std::vector<Tensor> outputs = list_of(out.state);
  outputs.insert(outputs.begin(), out.output);
  record_fused(
      "recurrent", outputs, {x_gates, weight, bias, first.h, first.c}, Saves{0, 1},
      [plan](const std::vector<Tensor>& in) {
        const auto rows = static_cast<int64_t>(plan.lengths.size());
        const RecurrentOutput r = composed_recurrent(plan.cell, in[0], in[1], in[2], {in[3], in[4]},
                                                     from_data(plan.lengths, {rows}), plan.reverse);
        std::vector<Tensor> outputs = list_of(r.state);
        outputs.insert(outputs.begin(), r.output);
        return outputs;
      },
      [plan, kept](Backward& back) { run_backward(back, plan, kept); });
  return out;
}

}  // namespace gradus
