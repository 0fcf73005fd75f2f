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
// Registrations are permanent: a module can be copied (both copies share the parameters) but not
// assigned to, so `model.out = Linear(256, 5)` does not compile. Declare your own parameters const,
// for example `const Tensor scale;`, initialised by `scale(param("scale", {dim}, 1))`, so that no
// other tensor can silently replace them; do the same with buffers, which change in place, by
// copy_, mul_, add_. A layer created without child() is unknown to its parent: its parameters are
// neither listed nor trained.

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/init.h"

namespace gradus::nn {

struct LoraUpdate;  // finetune/lora.h

/// Named parameters, buffers and children, in order of registration. Copying a module copies
/// handles, as copying a Tensor does: both copies share the parameters. A tied parameter is listed,
/// counted and saved once, under its first name.
class Module {
 public:
  Module(const Module&) = default;
  Module& operator=(const Module&) = delete;

  /// All parameters, frozen ones too.
  std::vector<Tensor> parameters() const;
  /// The parameters with their names, such as "blocks.0.attn.qkv.weight".
  NamedTensors named_parameters() const;
  /// The buffers, tensors that are not trained, with their names; non-persistent ones too.
  NamedTensors named_buffers() const;
  /// The number of elements of all parameters.
  int64_t num_parameters() const;

  /// The matrices of hidden layers, those for Muon: all weights marked by hidden_weight() under all
  /// their names. Embeddings, output layers, biases and norms are not among them.
  std::vector<StackedMatrices> hidden_matrices() const;

  /// Parameters and persistent buffers by name, detached but not copied: further training changes
  /// them. For a snapshot, save them or clone each.
  NamedTensors state_dict() const;
  /// Copies the tensors of `state` into those of the same names; a tied parameter may appear under
  /// any of its names. Throws one Error listing all names that are missing, unexpected, or of
  /// another shape or dtype, with nothing changed. Unless `strict`, missing and unexpected names
  /// are accepted.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  /// Calls rule(name, parameter) for each of named_parameters(). The rule may overwrite the
  /// parameter in place; no gradients are recorded. Does nothing while load_model() creates the
  /// model, since the file's weights will overwrite the parameters.
  void initialise(
      const std::function<void(const std::string& name, const Tensor& parameter)>& rule);

  /// Sets whether the parameters require grad. Optimisers skip those that do not (frozen ones);
  /// freezing also clears their gradients.
  void requires_grad_(bool on = true);
  /// Clears the parameters' gradients.
  void zero_grad();
  /// Converts parameters and floating-point buffers in place, so that all handles to them see the
  /// new dtype, and clears the gradients of those it converts. To bfloat16 or int8 it converts the
  /// weights that only Linear and Embedding read, and freezes them: for inference, or to train other
  /// layers around them. Throws Error, naming the parameter, if one cannot be converted.
  void to(Dtype dtype);

  /// The update of a linear layer, or null; see add_lora().
  const LoraUpdate* lora_update() const { return registry_->update.get(); }

 protected:
  Module() : registry_(std::make_shared<Registry>()) {}

  /// Registers a new float32 parameter, initialiser(shape), and returns the handle to it:
  ///   weight(param("weight", {out, in}, init::kaiming_uniform()))
  /// While load_model() creates the model, the parameter is zeros and no initialiser runs, since
  /// the file's weights will overwrite it. Throws Error on sizes below 1 and, while loading, on
  /// more elements than the file holds. The message opens with `layer`, by default the name of the
  /// calling constructor.
  Tensor param(const std::string& name, const Shape& shape, const Initialiser& initialiser,
               const char* layer = __builtin_FUNCTION());
  /// Registers a new float32 parameter whose elements are all `value`.
  Tensor param(const std::string& name, const Shape& shape, double value,
               const char* layer = __builtin_FUNCTION());
  /// Registers an existing tensor, such as another layer's weight, as a parameter, and returns the
  /// handle to it. Unlike an Initialiser, a call such as init::normal({n, n}) that computes `value`
  /// runs even while loading.
  Tensor param(const std::string& name, Tensor value);
  /// Says that only linear(), feed_forward() and embedding() read the parameter registered last, so
  /// that to() may compress it:
  ///   weight(compressible(param("weight", {out, in}, init::kaiming_uniform())))
  Tensor compressible(Tensor parameter);
  /// Says that a registered parameter is a hidden layer's weight: a matrix, a convolution's filters,
  /// or several matrices of the given `rows` in one tensor, see hidden_matrices().
  void hidden_weight(const Tensor& parameter, std::vector<int64_t> rows = {});
  /// Says that a layer's first parameter is the weight (out, in) of a linear map, to whose output the
  /// layer adds lora_update()'s, if there is one.
  void adaptable(const Tensor& weight) { registry_->adaptable = weight; }
  /// Registers `value` as a buffer. state_dict() lists it if it is `persistent`.
  Tensor buffer(const std::string& name, Tensor value, bool persistent = true);
  /// Registers a table, values(float32), as a buffer that state_dict() does not list. When to()
  /// changes its dtype, it is computed anew, since converted it would keep float32's digits.
  Tensor buffer(const std::string& name, const std::function<Tensor(Dtype)>& values);
  /// Registers a layer and returns it. Its parameters and buffers are listed with `name` and a dot
  /// before their own names. Throws Error if this module is part of the layer.
  template <class M>
  M child(const std::string& name, M module) {
    check_name(name);
    add_child(name, module);
    return module;
  }
  /// Registers the layers make(0), ..., make(n-1) under the names NAME.0, NAME.1, ... and returns
  /// them as a vector.
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
    Tensor tensor = {};                    // of a parameter or buffer
    std::shared_ptr<Registry> child = {};  // of a child
    bool compressible = false, hidden = false;
    std::vector<int64_t> rows = {};            // of a hidden layer's matrices
    std::function<Tensor(Dtype)> values = {};  // of a table
  };
  struct Registry {
    std::vector<Entry> entries;
    Tensor adaptable;  // a linear layer's weight
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
  /// All parameters and buffers under all their names.
  std::vector<Named> all() const;
  /// The tensors of these kinds, each under its first name.
  NamedTensors named(std::initializer_list<Kind> kinds) const;

  std::shared_ptr<Registry> registry_;
};

}  // namespace gradus::nn
