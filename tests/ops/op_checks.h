#pragma once
// The checks that the ops must pass. A check throws Error if it fails; the message tells what
// differs. A check takes a row of the op table, and `inputs` drawn from one of the row's samples.
// The inputs are contiguous tensors of float64, int64 or bool.

#include "tests/ops/op_table.h"

namespace gradus::testing {

/// Returns |a - b| / |b|, or |a - b| if |b| <= 1e-6, where |x| is the norm of x as a flat vector.
/// Equal infinities count as equal, and so do two NaNs. Returns infinity if the shapes or dtypes
/// differ, or if an element that is NaN or infinite in one tensor is not equal in the other.
double relative_distance(const Tensor& a, const Tensor& b);

/// Returns random inputs for the sample, drawn from the thread's generator.
Tensors draw(const Sample& sample);

/// Compares the first and second derivatives of row.f with central differences. Does the same for a
/// sum of all elements of row.f's outputs, each multiplied by a random constant.
void check_gradients(const OpRow& row, const Tensors& inputs);

/// Checks that row.f and row.composed have equal outputs and gradients, to a relative tolerance of
/// 1e-10 in float64 and 1e-4 in float32. Does nothing if the row has no `composed`.
void check_composed(const OpRow& row, const Tensors& inputs);

/// Checks that the gradient with create_graph equals the gradient without it.
void check_create_graph(const OpRow& row, const Tensors& inputs);

/// Checks that float32 agrees with float64 on the same inputs, which are first rounded to float32.
void check_float32(const OpRow& row, const Tensors& inputs);

/// Checks that inputs and output gradients with other memory layouts (reversed axes, every second
/// element, gaps between rows, stride 0) give the same results as contiguous copies. Also checks
/// that the op does not modify these inputs and output gradients.
void check_layouts(const OpRow& row, const Tensors& inputs);

/// Checks that a second backward pass through the same graph doubles the gradients.
void check_accumulation(const OpRow& row, const Tensors& inputs);

/// Checks that an input has the same gradient in three cases: all inputs require a gradient, only
/// this input does, or grad() is called for this input alone. Also checks that inputs that do not
/// require a gradient get none.
void check_wanted(const OpRow& row, const Tensors& inputs);

/// Checks that outputs and gradients do not change in three cases: only the graph references the
/// inputs, the leaves have hooks, or AnomalyMode is on. Skips the last case if an output is not
/// finite.
void check_ways(const OpRow& row, const Tensors& inputs);

/// Overwrites each input and output in turn after a forward pass. Checks that backward then throws
/// Error or computes the same gradients as without the change.
void check_overwritten(const OpRow& row, const Tensors& inputs);

/// Checks that no memory stays allocated after forward, backward and gradients of gradients.
void check_live_bytes(const OpRow& row, const Tensors& inputs);

/// Checks that one thread and two threads give equal results, in float32 and float64.
void check_threads(const OpRow& row, const Tensors& inputs);

/// Checks that the outputs of row.f do not require grad. row.differentiable must be false.
void check_no_gradient(const OpRow& row, const Tensors& inputs);

/// Returns the names of the nodes in the graph of `outputs`.
std::vector<std::string> recorded_names(const Tensors& outputs);

}  // namespace gradus::testing
