#pragma once
// A graph of standard ONNX operators (opset 17). It is built node by node, and serialised by the
// library in the Debian package libonnx-dev.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gradus/nn/module.h"

namespace onnx {
class ModelProto;
}

namespace gradus {

/// The name of a value in the graph: an input, a weight, a constant or an output of a node.
using OnnxValue = std::string;
/// Sizes, axes or indices.
using Ints = std::vector<int64_t>;
/// An attribute of an operator: its name and its value.
using OnnxAttribute = std::pair<std::string, std::variant<int64_t, double, Ints>>;
/// The sizes of an input or output: numbers, or names of dynamic sizes, for example "batch".
using OnnxShape = std::vector<std::variant<int64_t, const char*>>;

/// The ONNX graph of a model's forward pass. Adding a node that equals an earlier one returns the
/// outputs of the earlier node.
class OnnxGraph {
 public:
  /// Makes an empty graph for `model`. The model must outlive the graph. Weights keep their names
  /// from the model's state dict. Throws Error, naming the weight or layer, if a weight is not
  /// float32 or a layer has a low-rank update (merge it first).
  explicit OnnxGraph(const nn::Module& model);
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  /// Adds an input and returns its name. Throws Error unless `dtype` is float32, int64 or bool.
  OnnxValue input(const std::string& name, Dtype dtype, const OnnxShape& shape);
  /// Adds an output with this name and shape. The output is a copy of the float32 `value`.
  void output(const std::string& name, const OnnxValue& value, const OnnxShape& shape);
  /// Adds a parameter or buffer of the model to the graph, if it was not added before, and returns
  /// its name. Throws Error if the tensor does not belong to the model, or if the weights in the
  /// graph exceed 2 GB, the limit of a protobuf.
  OnnxValue weight(const Tensor& tensor);
  /// Returns a constant int64 tensor of rank 1.
  OnnxValue ints(const Ints& values);
  /// Returns a constant int64 tensor of rank 0.
  OnnxValue index(int64_t value);
  /// Returns a constant float32 tensor of rank 0.
  OnnxValue number(double value) { return numbers({value}, {}); }
  /// Returns a constant float32 tensor.
  OnnxValue numbers(const std::vector<double>& values, const Ints& shape);
  /// Adds a node with one output and returns the output. `op` is the name of an ONNX operator, for
  /// example "MatMul". An empty string in `inputs` stands for an optional input that is left out.
  OnnxValue operator()(const std::string& op, const std::vector<OnnxValue>& inputs,
                       const std::vector<OnnxAttribute>& attributes = {});
  /// Splits x along its last axis into parts of these sizes, and returns the parts.
  std::vector<OnnxValue> split(const OnnxValue& x, const Ints& sizes);
  /// Returns the bytes of the ONNX file.
  std::string bytes() const;

 private:
  /// Adds the constant `name` if it does not exist yet, and returns `name`. T is float or int64_t.
  template <class T>
  OnnxValue constant(const std::string& name, const std::vector<T>& values, const Ints& shape);
  std::vector<OnnxValue> add_node(const std::string& op, const std::vector<OnnxValue>& inputs,
                                  const std::vector<OnnxAttribute>& attributes, int64_t outputs);

  std::unique_ptr<::onnx::ModelProto> model_;
  std::map<const void*, std::string> weight_names_;      // names of weights, by address of the data
  std::map<std::string, bool> constants_;                // keys: names of weights and constants
  std::map<std::string, std::vector<OnnxValue>> nodes_;  // outputs of nodes, by serialised node
  int64_t weight_bytes_ = 0;
};

}  // namespace gradus
