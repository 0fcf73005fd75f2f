#include "examples/onnx/graph.h"

#include <bit>

#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include "gradus/core/debug/build_info.h"
#include "gradus/core/runtime/error.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus {

using core::check;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

namespace {
constexpr int64_t opset = 17, ir_version = 8;
// Protobuf's limit, less what nodes and names take.
constexpr int64_t most_bytes = (int64_t{1} << 31) - (int64_t{1} << 24);

::onnx::TensorProto::DataType type_of(Dtype dtype) {
  if (dtype == int64) return ::onnx::TensorProto::INT64;
  if (dtype == boolean) return ::onnx::TensorProto::BOOL;
  check(dtype == float32, "ONNX: expected float32, int64 or bool, got ", dtype);
  return ::onnx::TensorProto::FLOAT;
}

void describe(::onnx::ValueInfoProto* info, const std::string& name, Dtype dtype,
              const OnnxShape& shape) {
  info->set_name(name);
  ::onnx::TypeProto::Tensor* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(type_of(dtype));
  type->mutable_shape();  // present for a scalar too
  for (const auto& size : shape) {
    auto* dim = type->mutable_shape()->add_dim();
    if (const auto* number = std::get_if<int64_t>(&size))
      dim->set_dim_value(*number);
    else
      dim->set_dim_param(std::get<const char*>(size));
  }
}

void set(::onnx::AttributeProto* to, const OnnxAttribute& attribute) {
  to->set_name(attribute.first);
  if (const auto* integer = std::get_if<int64_t>(&attribute.second)) {
    to->set_type(::onnx::AttributeProto::INT);
    to->set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&attribute.second)) {
    to->set_type(::onnx::AttributeProto::FLOAT);
    to->set_f(static_cast<float>(*real));
  } else {
    to->set_type(::onnx::AttributeProto::INTS);
    for (const int64_t value : std::get<Ints>(attribute.second)) to->add_ints(value);
  }
}

::onnx::TensorProto* add_tensor(::onnx::GraphProto* graph, const std::string& name, Dtype dtype,
                                const auto& shape) {
  ::onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type_of(dtype));
  for (const int64_t size : shape) tensor->add_dims(size);
  return tensor;
}
}  // namespace

OnnxGraph::OnnxGraph(const nn::Module& model) : model_(std::make_unique<::onnx::ModelProto>()) {
  const auto updates = nn::lora_updates(model);
  check(updates.empty(), "ONNX: layer '", updates.empty() ? "" : updates.front().first,
        "' has a low-rank update: merge it first");
  for (const NamedTensors& tensors : {model.named_parameters(), model.named_buffers()})
    for (const auto& [name, tensor] : tensors) {
      check(tensor.dtype() == float32, "ONNX: expected weights in float32, '", name, "' is ",
            tensor.dtype());
      weight_names_.emplace(tensor.data<float>(), name);
    }
  model_->set_ir_version(ir_version);
  model_->set_producer_name("gradus");
  model_->set_producer_version(version());
  model_->add_opset_import()->set_version(opset);
  model_->mutable_graph()->set_name("forward");
}

OnnxGraph::~OnnxGraph() = default;

OnnxValue OnnxGraph::input(const std::string& name, Dtype dtype, const OnnxShape& shape) {
  describe(model_->mutable_graph()->add_input(), name, dtype, shape);
  return name;
}

void OnnxGraph::output(const std::string& name, const OnnxValue& value, const OnnxShape& shape) {
  describe(model_->mutable_graph()->add_output(), name, float32, shape);
  ::onnx::NodeProto* node = model_->mutable_graph()->add_node();
  node->set_op_type("Identity");
  node->add_input(value);
  node->add_output(name);
}

OnnxValue OnnxGraph::weight(const Tensor& tensor) {
  const auto found = weight_names_.find(tensor.data<float>());
  check(found != weight_names_.end(), "ONNX: a tensor ", tensor.shape(),
        " is not a parameter or buffer of the model");
  const auto& name = found->second;
  if (constants_.contains(name)) return name;
  const int64_t bytes = tensor.numel() * static_cast<int64_t>(sizeof(float));
  check(bytes <= most_bytes - weight_bytes_, "ONNX: the weights exceed 2 GB, the most that an ",
        "ONNX file can hold: '", name, "' follows ", weight_bytes_, " bytes with ", bytes);
  weight_bytes_ += bytes;
  constants_[name] = true;
  const Tensor dense = tensor.detach().contiguous();
  add_tensor(model_->mutable_graph(), name, float32, dense.shape())
      ->set_raw_data(dense.data<float>(), static_cast<size_t>(bytes));
  return name;
}

template <class T>
OnnxValue OnnxGraph::constant(const std::string& name, const std::vector<T>& values,
                              const Ints& shape) {
  if (!constants_.emplace(name, true).second) return name;
  const Dtype dtype = std::is_same_v<T, float> ? float32 : int64;
  add_tensor(model_->mutable_graph(), name, dtype, shape)
      ->set_raw_data(values.data(), values.size() * sizeof(T));
  return name;
}

namespace {
std::string joined(const auto& values) {
  std::string text;
  for (const auto value : values) text += ',' + std::to_string(value);
  return text;
}
}  // namespace

OnnxValue OnnxGraph::ints(const Ints& values) {
  return constant("ints" + joined(values), values, {std::ssize(values)});
}

OnnxValue OnnxGraph::index(int64_t value) {
  return constant<int64_t>("index," + std::to_string(value), {value}, {});
}

OnnxValue OnnxGraph::numbers(const std::vector<double>& values, const Ints& shape) {
  const std::vector<float> rounded(values.begin(), values.end());
  std::vector<uint32_t> bits;  // a name of decimals would lose digits
  for (const float value : rounded) bits.push_back(std::bit_cast<uint32_t>(value));
  return constant("numbers" + joined(shape) + ':' + joined(bits), rounded, shape);
}

std::vector<OnnxValue> OnnxGraph::add_node(const std::string& op,
                                           const std::vector<OnnxValue>& inputs,
                                           const std::vector<OnnxAttribute>& attributes,
                                           int64_t outputs) {
  ::onnx::NodeProto node;
  node.set_op_type(op);
  for (const OnnxValue& input : inputs) node.add_input(input);
  for (const OnnxAttribute& attribute : attributes) set(node.add_attribute(), attribute);
  std::vector<OnnxValue>& values = nodes_[node.SerializeAsString()];
  if (!values.empty()) return values;
  const std::string name = op + '_' + std::to_string(nodes_.size());
  node.set_name(name);
  for (int64_t i = 0; i < outputs; ++i)
    node.add_output(values.emplace_back(outputs == 1 ? name : name + '.' + std::to_string(i)));
  *model_->mutable_graph()->add_node() = std::move(node);
  return values;
}

OnnxValue OnnxGraph::operator()(const std::string& op, const std::vector<OnnxValue>& inputs,
                                const std::vector<OnnxAttribute>& attributes) {
  return add_node(op, inputs, attributes, 1)[0];
}

std::vector<OnnxValue> OnnxGraph::split(const OnnxValue& x, const Ints& sizes) {
  return add_node("Split", {x, ints(sizes)}, {{"axis", -1}}, std::ssize(sizes));
}

std::string OnnxGraph::bytes() const { return model_->SerializeAsString(); }

}  // namespace gradus
