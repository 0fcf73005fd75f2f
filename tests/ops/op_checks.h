#pragma once
// What every op must pass, whatever it computes. Each check throws Error, saying what differs;
// `inputs` are as a row's sample draws them: contiguous, float64, int64 or bool.

#include "tests/ops/op_table.h"

namespace gradus::testing {

/// |a - b| over |b|, both as vectors of all their elements; |a - b| where b is next to nothing.
/// Where both are the same infinity or NaN they do not differ. Infinite if shapes or dtypes differ.
double relative_distance(const Tensor& a, const Tensor& b);

/// The sample's inputs, drawn from the thread's generator.
Tensors draw(const Sample& sample);

/// Gradients and gradients of gradients against central differences: for each element of the output
/// by itself, and once for a random projection of all outputs.
void check_gradients(const OpRow& row, const Tensors& inputs);

/// f and its composed form: outputs and gradients, in float64 to 1e-10 and in float32 to 1e-4.
void check_composed(const OpRow& row, const Tensors& inputs);

/// The gradient under create_graph equals the ordinary one.
void check_create_graph(const OpRow& row, const Tensors& inputs);

/// float32 against float64 on the same, rounded inputs.
void check_float32(const OpRow& row, const Tensors& inputs);

/// Inputs and output gradients that lie otherwise in memory (axes reversed, every second element,
/// rows apart, repeated) give what contiguous copies give, and are left as they are.
void check_layouts(const OpRow& row, const Tensors& inputs);

/// A second backward pass through the same graph doubles the gradients.
void check_accumulation(const OpRow& row, const Tensors& inputs);

/// With one input alone wanting a gradient, the others get none and its own is the same.
void check_wanted(const OpRow& row, const Tensors& inputs);

/// Other ways through the engine give the same: inputs that only the graph holds, hooks on the
/// leaves, AnomalyMode.
void check_ways(const OpRow& row, const Tensors& inputs);

/// Once an input or an output has been written over, backward throws or gives the same as before.
void check_overwritten(const OpRow& row, const Tensors& inputs);

/// Nothing stays allocated: after forward, after backward, after gradients of gradients.
void check_live_bytes(const OpRow& row, const Tensors& inputs);

/// One thread and two give the same bits, in float32 and float64.
void check_threads(const OpRow& row, const Tensors& inputs);

/// An op without gradients returns tensors that want none.
void check_no_gradient(const OpRow& row, const Tensors& inputs);

/// The names of the nodes of the graph behind `outputs`.
std::vector<std::string> recorded_names(const Tensors& outputs);

}  // namespace gradus::testing
