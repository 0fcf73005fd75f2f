#pragma once
// The checks that every op must pass. Each throws an Error that says what differs. `inputs` are
// drawn from a row's sample: contiguous tensors of float64, int64 or bool.

#include "tests/ops/op_table.h"

namespace gradus::testing {

/// |a - b| / |b|, with both as flat vectors; |a - b| if b is close to 0. Equal infinities and NaNs
/// do not differ. Infinite if shapes or dtypes differ.
double relative_distance(const Tensor& a, const Tensor& b);

/// The sample's inputs, drawn from the thread's generator.
Tensors draw(const Sample& sample);

/// Gradients and gradients of gradients equal central differences, for each output element and for
/// a random projection of all outputs.
void check_gradients(const OpRow& row, const Tensors& inputs);

/// row.f and row.composed have equal outputs and gradients, in float64 to 1e-10 and in float32 to
/// 1e-4.
void check_composed(const OpRow& row, const Tensors& inputs);

/// The gradient with create_graph equals the one without.
void check_create_graph(const OpRow& row, const Tensors& inputs);

/// float32 agrees with float64 on the same inputs, which are first rounded to float32.
void check_float32(const OpRow& row, const Tensors& inputs);

/// Inputs and output gradients with other memory layouts (reversed axes, every second element, gaps
/// between rows, stride 0) give the same results as contiguous copies, and are not modified.
void check_layouts(const OpRow& row, const Tensors& inputs);

/// A second backward pass through the same graph doubles the gradients.
void check_accumulation(const OpRow& row, const Tensors& inputs);

/// If only one input requires a gradient, it gets the same gradient as when all inputs require one,
/// and the other inputs get none.
void check_wanted(const OpRow& row, const Tensors& inputs);

/// The results stay the same if only the graph holds the inputs, if leaves have hooks, and under
/// AnomalyMode.
void check_ways(const OpRow& row, const Tensors& inputs);

/// After an input or output is overwritten, backward throws or gives the same as before.
void check_overwritten(const OpRow& row, const Tensors& inputs);

/// No memory stays allocated after forward, backward and gradients of gradients.
void check_live_bytes(const OpRow& row, const Tensors& inputs);

/// One thread and two give the same bits, in float32 and float64.
void check_threads(const OpRow& row, const Tensors& inputs);

/// An op whose row is not `differentiable` returns tensors that do not require grad.
void check_no_gradient(const OpRow& row, const Tensors& inputs);

/// The names of the nodes in the graph of `outputs`.
std::vector<std::string> recorded_names(const Tensors& outputs);

}  // namespace gradus::testing
