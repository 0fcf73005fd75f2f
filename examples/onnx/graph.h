#pragma once
// A graph of ONNX's standard operators (opset 17), built node by node; written by Debian's
// libonnx-dev.

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

/// The name of a value in the graph: of an input, a weight, a constant or a node's output.
using OnnxValue = std::string;
/// Sizes, axes or indices.
using Ints = std::vector<int64_t>;
/// An operator's attribute: its name and its value.
using OnnxAttribute = std::pair<std::string, std::variant<int64_t, double, Ints>>;
/// Sizes of an input or output: numbers, or the names of free sizes, such as "batch".
using OnnxShape = std::vector<std::variant<int64_t, const char*>>;

/// The graph of a model's forward pass. A node equal to an earlier one is not added again.
class OnnxGraph {
 public:
  /// The graph holds the weights of `model`, which must outlive it, under their names in its state
  /// dict. Throws Error, naming the weight or layer, unless all weights are float32 and none has a
  /// low-rank update (merge it first).
  explicit OnnxGraph(const nn::Module& model);
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  /// Adds an input of float32, int64 or bool.
  OnnxValue input(const std::string& name, Dtype dtype, const OnnxShape& shape);
  /// Names a float32 value as an output.
  void output(const std::string& name, const OnnxValue& value, const OnnxShape& shape);
  /// A parameter or buffer of the model. Throws Error if it is not the model's, or if the weights
  /// exceed the 2 GB that a protobuf may have.
  OnnxValue weight(const Tensor& tensor);
  /// A constant int64 tensor of rank 1.
  OnnxValue ints(const Ints& values);
  /// A constant int64 tensor of rank 0.
  OnnxValue index(int64_t value);
  /// A constant float32 tensor, of rank 0 by default.
  OnnxValue number(double value) { return numbers({value}, {}); }
  /// A constant float32 tensor.
  OnnxValue numbers(const std::vector<double>& values, const Ints& shape);
  /// The output of a new node. An empty input is an optional one that is absent.
  OnnxValue operator()(const std::string& op, const std::vector<OnnxValue>& inputs,
                       const std::vector<OnnxAttribute>& attributes = {});
  /// x in parts of these sizes along its last axis.
  std::vector<OnnxValue> split(const OnnxValue& x, const Ints& sizes);
  /// The file's bytes.
  std::string bytes() const;

 private:
  /// Adds the constant `name` unless there is one; T: what the bytes hold.
  template <class T>
  OnnxValue constant(const std::string& name, const std::vector<T>& values, const Ints& shape);
  std::vector<OnnxValue> add_node(const std::string& op, const std::vector<OnnxValue>& inputs,
                                  const std::vector<OnnxAttribute>& attributes, int64_t outputs);

  std::unique_ptr<::onnx::ModelProto> model_;
  std::map<const void*, std::string> weight_names_;      // by address
  std::map<std::string, bool> constants_;                // those added
  std::map<std::string, std::vector<OnnxValue>> nodes_;  // by content
  int64_t weight_bytes_ = 0;
};

}  // namespace gradus
