#pragma once
// Module: the base of layers and models. A layer is a struct that derives from Module, registers
// its parameters and child layers by name as it creates them, and has an operator():
//
//   struct Classifier : Module {
//     Linear hidden, out;
//     Classifier()
//         : hidden(child("hidden", Linear(784, 256))), out(child("out", Linear(256, 10))) {}
//     Tensor operator()(const Tensor& x) const { return out(relu(hidden(x))); }
//   };
//   Classifier model;  // parameters hidden.weight, hidden.bias, out.weight, out.bias
//
// Registrations are permanent, except that merge_lora() removes LoRA's parameters. A module can be
// copied. The copies share the parameters, and also what one of them registers later. If a new
// layer derived from a copy of an existing layer, the parameters of the new layer would therefore
// be added to the existing layer too. To extend a layer, make it a child of a new layer instead. A
// module cannot be assigned to: for example, `model.out = Linear(256, 5)` does not compile. Declare
// your own parameters const, as in `const Tensor scale;`, so that no other tensor can replace them
// by mistake, and initialise them as in `scale(param("scale", {dim}, 1))`. Do the same with
// buffers, which copy_, mul_ and add_ can change in place. A layer created without child() or
// children() is unknown to its parent: its parameters are neither listed nor trained.

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/init.h"

namespace gradus::nn {

struct LoraUpdate;  // defined in finetune/lora.h

/// The base of layers and models: named parameters, buffers and children, in order of registration.
/// Registering throws Error if the name is empty, contains a dot, or is already used in the same
/// module. After children() has registered "blocks.0", the name "blocks" counts as used too. Copies
/// of a module share the parameters, as copies of a Tensor share the elements. A parameter
/// registered in several places (a tied parameter) is listed, counted and saved once, under its
/// first name.
class Module {
 public:
  Module(const Module&) = default;
  Module& operator=(const Module&) = delete;

  /// Returns all parameters, including frozen ones.
  std::vector<Tensor> parameters() const;
  /// Returns the parameters with their names, for example "blocks.0.attn.qkv.weight".
  NamedTensors named_parameters() const;
  /// Returns the buffers (tensors that are not trained) with their names, including non-persistent
  /// buffers.
  NamedTensors named_buffers() const;
  /// Returns the number of elements of all parameters.
  int64_t num_parameters() const;

  /// Returns the weights of hidden layers, for optim::Muon: those marked by hidden_weight(), each
  /// once. Leaves out a marked weight that another layer, for example an embedding, has registered
  /// without the mark. Embeddings, biases, norms and LoRA's matrices are not marked, nor are the
  /// weights of layers created with hidden = false, such as output layers.
  std::vector<StackedMatrices> hidden_matrices() const;

  /// Returns parameters and persistent buffers by name, detached but not copied: further training
  /// changes them. For a snapshot, save or clone them.
  NamedTensors state_dict() const;
  /// Copies each tensor of `state` into the parameter or persistent buffer with the same name. A
  /// tied parameter may appear under any of its names, or under several names with equal elements.
  /// Throws Error, with nothing changed, if a name is missing, unexpected or given twice, or if a
  /// tensor is undefined or has a different shape or dtype. The message lists these names, at most
  /// ten of each kind. If `strict` is false, missing and unexpected names are ignored. Also throws
  /// the errors of load_named() for bfloat16, int8 and expanded tensors.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  /// Calls rule(name, parameter) for each of named_parameters(). The rule may overwrite the
  /// parameter in place, because no gradients are recorded. Does nothing while a function such as
  /// load_model() creates the model, because the weights in the files will overwrite the
  /// parameters.
  void initialise(
      const std::function<void(const std::string& name, const Tensor& parameter)>& rule);

  /// Sets whether the parameters require grad. Optimisers skip parameters that do not (frozen
  /// parameters). Freezing also clears their gradients. Throws Error if `on` is true and a
  /// parameter is bfloat16 or int8.
  void requires_grad_(bool on = true);
  /// Clears the gradients of the parameters.
  void zero_grad();
  /// Converts parameters and floating-point buffers to `dtype` in place: every Tensor object that
  /// refers to one of them sees the new dtype. Clears the gradients of the converted tensors.
  ///
  /// If `dtype` is bfloat16 or int8, converts and freezes only weights marked by compressible(),
  /// such as those of Linear and Embedding. The model can then be used for inference, or to train
  /// other layers around these weights. A marked weight keeps its dtype if another layer has
  /// registered it without the mark. Weights converted back to float32 or float64 stay frozen.
  ///
  /// Throws Error, with nothing changed, if a tensor cannot be converted; the message names the
  /// tensor. float64 converts to neither bfloat16 nor int8. Only a matrix of finite elements
  /// converts to int8. Also throws Error if `dtype` is int64 or bool.
  void to(Dtype dtype);

  /// Returns the LoRA update of this linear layer, or null if it has none; see add_lora().
  const LoraUpdate* lora_update() const { return registry_->update.get(); }

 protected:
  Module() : registry_(std::make_shared<Registry>()) {}

  /// Registers the tensor initialiser(shape) as a new parameter and returns it, for example:
  ///   weight(param("weight", {out, in}, init::kaiming_uniform()))
  /// Throws Error if a size is below 1 or if the initialiser returns another shape. The message
  /// begins with `layer`, by default the name of the calling constructor.
  ///
  /// While a function such as load_model() creates the model, no initialiser runs and the parameter
  /// is zeros, because the weights in the files will overwrite it. param() then also throws Error
  /// if the model's parameters have more elements than load_weights(), in
  /// models/folder/model_folder.h, allows for the files.
  Tensor param(const std::string& name, const Shape& shape, const Initialiser& initialiser,
               const char* layer = __builtin_FUNCTION());
  /// Registers a new float32 parameter whose elements are all `value`, and returns it. Throws Error
  /// if a size is below 1. The message begins with `layer`.
  ///
  /// While a function such as load_model() creates the model, param() also throws Error if the
  /// model's parameters have more elements than load_weights(), in models/folder/model_folder.h,
  /// allows for the files.
  Tensor param(const std::string& name, const Shape& shape, double value,
               const char* layer = __builtin_FUNCTION());
  /// Registers `value` as a parameter, for example the weight of another layer. Makes `value`
  /// require grad, and returns it. Throws Error, with `value` unchanged, unless it is a float32 or
  /// float64 leaf that is not expanded. For random initial values, call the overload that takes an
  /// Initialiser. load_model() then does not compute these values, because it overwrites them.
  Tensor param(const std::string& name, Tensor value);
  /// Marks `parameter`, the one registered last, so that to() may convert it to bfloat16 and int8.
  /// Returns `parameter`. Throws Error if it is not the one registered last. All ops that read the
  /// parameter must accept these dtypes, as linear(), feed_forward() and embedding() do. For
  /// example:
  ///   weight(compressible(param("weight", {out, in}, init::kaiming_uniform())))
  Tensor compressible(Tensor parameter);
  /// Marks a parameter of this layer as the weight of a hidden layer, so that hidden_matrices()
  /// lists it. `parameter` may be a matrix, the filters of a convolution, or several stacked
  /// matrices. For stacked matrices, `rows` lists the number of rows of each, and `heads` the
  /// number of attention heads of each; see StackedMatrices. Throws Error unless this layer itself,
  /// and not a child, has registered `parameter`. Also throws Error if `rows` is not empty and does
  /// not add up to the number of rows of `parameter`.
  void hidden_weight(const Tensor& parameter, std::vector<int64_t> rows = {},
                     std::vector<int64_t> heads = {});
  /// Marks `weight`, a parameter of this layer, as the matrix (out, in) of a linear map, so that
  /// add_lora() can give the layer a LoRA update. If lora_update() is not null, the layer must
  /// apply that update. Throws Error unless `weight` is a matrix that this layer itself has
  /// registered.
  void adaptable(const Tensor& weight);
  /// Registers `value` as a buffer and returns it. If `value` is expanded, registers and returns a
  /// contiguous copy instead. state_dict() lists the buffer only if `persistent` is true. Throws
  /// Error if `value` is undefined or requires grad.
  Tensor buffer(const std::string& name, Tensor value, bool persistent = true);
  /// Registers values(float32) as a buffer, for example a table of positions, and returns it.
  /// state_dict() does not list the buffer. When to() changes the buffer's dtype, it calls
  /// values(dtype) again, because a converted table would have only the precision of float32.
  Tensor buffer(const std::string& name, const std::function<Tensor(Dtype)>& values);
  /// Registers a layer and returns it. This module lists the layer's parameters and buffers under
  /// names that start with `name` and a dot. Throws Error if the layer is or contains this module.
  template <class M>
  M child(const std::string& name, M module) {
    check_name(name);
    add_child(name, module);
    return module;
  }
  /// Registers the layers make(0), ..., make(n - 1) as children named `name` + ".0", `name` + ".1",
  /// and so on, and returns them as a vector.
  template <class Make>
  auto children(const std::string& name, int64_t n, Make&& make) {
    check_name(name);
    std::vector<decltype(make(n))> modules;
    for (int64_t i = 0; i < n; ++i) {
      modules.push_back(make(i));
      add_child(name + '.' + std::to_string(i), modules.back());
    }
    return modules;
  }

 private:
  friend struct Lora;
  enum class Kind { parameter, buffer, temporary_buffer };
  struct Registry;
  struct Entry {
    std::string name;
    Kind kind = Kind::parameter;
    Tensor tensor = {};                    // the parameter or buffer; undefined for a child
    std::shared_ptr<Registry> child = {};  // the registry of a child, else null
    bool compressible = false, hidden = false;
    std::vector<int64_t> rows = {}, heads = {};  // arguments of hidden_weight()
    std::function<Tensor(Dtype)> values = {};    // argument of buffer(name, values); else empty
  };
  struct Registry {
    std::vector<Entry> entries;
    Tensor adaptable;  // the weight passed to adaptable(), or undefined
    std::shared_ptr<LoraUpdate> update;
  };
  struct Named {
    std::string name;
    const Entry* entry;
  };

  static void check_name(const std::string& name);
  void add(Entry entry);
  void add_child(const std::string& name, const Module& module);
  static bool contains(const Registry& registry, const Registry* target);
  static void collect(const Registry& registry, const std::string& prefix, std::vector<Named>& out);
  /// Returns all parameters and buffers under all their names.
  std::vector<Named> all() const;
  /// Returns the tensors of these kinds, each under its first name.
  NamedTensors named(std::initializer_list<Kind> kinds) const;

  std::shared_ptr<Registry> registry_;
};

}  // namespace gradus::nn
