#pragma once
// Optimizer and GroupOptimizer: parameter groups, state, clipping and saving for all optimisers. A
// concrete optimiser adds its options and one update rule, usually per element (elementwise.h) or
// per tensor (TensorOptimizer).

#include <optional>
#include <set>
#include <span>

#include "gradus/optim/grad_norm.h"

namespace gradus::optim {

/// Parameters that share a learning rate and a weight decay.
struct ParameterGroup {
  std::vector<Tensor> params;  ///< no parameter may be in two groups or twice in one
  double lr_scale = 1;         ///< the group's learning rate is lr_scale times the optimiser's
  std::optional<double> weight_decay = {};  ///< the group's weight decay; default: the optimiser's
};

/// Parameter groups. A plain list of parameters becomes one group.
struct ParameterGroups {
  std::vector<ParameterGroup> list;  ///< the groups, each with its own lr_scale and weight_decay
  ParameterGroups(std::vector<Tensor> params) : list{{.params = std::move(params)}} {}
  ParameterGroups(std::initializer_list<Tensor> params) : list{{.params = params}} {}
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : list(groups) {}
};

/// Returns two groups: parameters of rank >= 2 (matrices), with the optimiser's weight decay, and
/// all other parameters (biases and norms), without weight decay.
ParameterGroups decay_groups(const std::vector<Tensor>& params);

/// Options of one step.
struct StepOptions {
  /// The global norm to which the gradients are clipped, see clip_grad_norm(). Must be > 0.
  /// Infinity (the default) means no clipping.
  double max_grad_norm = std::numeric_limits<double>::infinity();
  /// The global norm of the gradients before clipping, to be compared with max_grad_norm. If the
  /// parameters are divided among several optimisers or processes, set this option to the norm of
  /// all gradients. Must be >= 0. Default: the norm of this optimiser's gradients.
  std::optional<double> grad_norm = {};
};

/// A tensor that an optimiser keeps per parameter, for example a running mean of the gradients.
struct State {
  std::string name;  ///< for example "exp_avg"; the state of parameter 0 is saved as "exp_avg.0"
  /// Returns the state's initial value for a parameter. The optimiser copies the returned tensor if
  /// anything else refers to it. If the function is empty, the state starts as zeros of the
  /// parameter's shape and dtype.
  std::function<Tensor(const Tensor& param)> initial;
  State(const char* name, std::function<Tensor(const Tensor& param)> initial = {})
      : name(name), initial(std::move(initial)) {}
};

/// The base of all optimisers, which update parameters by their gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates all parameters that require grad and have a gradient. Returns options.grad_norm if it
  /// is set. Otherwise returns the global norm of the gradients before clipping, or 0 if
  /// options.max_grad_norm is infinity. Throws Error, with nothing changed, if an option is
  /// invalid, if the dtype of a parameter has changed since its state was allocated, or if the
  /// optimiser rejects a gradient (Muon rejects NaN and infinity).
  double step(const StepOptions& options = {});
  /// Clears the gradients of all parameters: grad() is then undefined.
  void zero_grad();
  /// Returns all parameters, in the order in which they were passed to the constructor. A
  /// CombinedOptimizer returns those of its first optimiser first.
  virtual std::vector<Tensor> parameters() const = 0;

  virtual double lr() const = 0;  ///< learning rate, without the groups' lr_scale
  /// Sets the learning rate from the next step on. Throws Error unless `lr` is finite and >= 0.
  virtual void set_lr(double lr) = 0;

  /// Returns everything that later steps depend on, except parameters, options and learning rate.
  /// Most tensors share memory with the optimiser, and the next step changes them. For a snapshot,
  /// save or clone them.
  virtual NamedTensors state_dict() const = 0;
  /// Restores a state returned by state_dict(). If names, shapes or dtypes do not match, changes
  /// nothing and throws one Error that lists the names, at most ten of each kind of mismatch. Also
  /// throws Error, with nothing changed, if a number of updates is below 0 or above 2^53.
  virtual void load_state_dict(const NamedTensors& state) = 0;

 protected:
  explicit Optimizer(const char* name) : name_(name) {}
  const char* name() const { return name_; }  ///< the class's name; error messages begin with it

 private:
  friend class CombinedOptimizer;
  friend class ShardedOptimizer;
  /// Returns contiguous gradients of the parameters that the next step updates.
  virtual std::vector<Tensor> gradients() const = 0;
  /// Throws Error if the next step cannot run, for example because the dtype of a parameter has
  /// changed.
  virtual void check_step() const = 0;
  /// Updates the parameters, with each gradient multiplied by `grad_scale`. step() calls apply()
  /// after check_step(), under NoGrad.
  virtual void apply(double grad_scale) = 0;
  /// Restricts later steps to the parameters in `owned`, and frees the state of all other
  /// parameters. `owned` contains the address &p.impl() of each parameter p to keep. state_dict()
  /// then lists the freed states as undefined tensors.
  virtual void keep_only(const std::set<const void*>& owned) = 0;

  const char* name_;
};

/// An optimiser that keeps named states for each parameter, for example running means. The base of
/// all optimisers except CombinedOptimizer and ShardedOptimizer. Steps skip parameters without a
/// gradient and frozen parameters (requires_grad() is false). If a float32 or float64 parameter is
/// frozen at construction, its states are allocated at its first update or by load_state_dict().
/// Error messages name a parameter by its position among the parameters of all groups, from 0.
///
/// The constructors of all subclasses throw Error if no parameter requires grad, if a parameter is
/// listed twice or shares memory with another, or if a parameter is not a contiguous leaf of
/// float32 or float64 (a frozen parameter may also be bfloat16 or int8). They also throw Error if
/// the learning rate, a weight decay or an lr_scale is negative or not finite, if an option of the
/// subclass is out of range, or if two of the subclass's states have the same name.
class GroupOptimizer : public Optimizer {
 public:
  std::vector<Tensor> parameters() const override;
  double lr() const override { return lr_; }
  void set_lr(double lr) override;
  const std::vector<ParameterGroup>& groups() const { return groups_; }  ///< in the order given

  /// Returns a tensor "step" with the number of updates of each parameter, and the states of each
  /// float32 or float64 parameter. AdamW, for example, calls the states of parameter 0 "exp_avg.0"
  /// and "exp_avg_sq.0".
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 protected:
  /// A parameter that a step updates, with its gradient and state.
  struct Update {
    const Tensor& param;            ///< the parameter, to be written in place
    Tensor grad;                    ///< the parameter's gradient, contiguous and not clipped
    std::span<const Tensor> state;  ///< the parameter's states, in the order of states()
    double lr, weight_decay;        ///< of the parameter group; lr includes the factor lr_scale
    int64_t step;                   ///< number of updates of the parameter, including this one
    size_t index;                   ///< position among the parameters of all groups, from 0
  };

  /// Makes an optimiser that keeps `states` per parameter. If `elementwise` is true, allocating a
  /// state throws Error unless the state has the shape and dtype of its parameter.
  GroupOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                 std::vector<State> states, bool elementwise = false);
  /// Updates the parameters and their states in place, with each gradient multiplied by
  /// `grad_scale` (clipping). step() calls update() under NoGrad.
  virtual void update(std::span<const Update> updates, double grad_scale) = 0;
  /// Throws Error if the optimiser rejects the gradient `grad` of parameter `index`. step() calls
  /// check_gradient() before it changes anything.
  virtual void check_gradient(size_t /*index*/, const Tensor& /*grad*/) const {}

  const std::vector<State>& states() const { return states_; }  ///< as passed to the constructor
  /// Returns the name of a parameter in error messages, for example "AdamW: parameter 3 of shape
  /// (2, 5)".
  std::string label(size_t index, const Tensor& param) const;

 private:
  struct Slot {  // a parameter with its state
    Tensor param;
    std::vector<Tensor> state;   // empty before allocation and if another rank updates param
    std::optional<Dtype> dtype;  // param's dtype when a rank allocated its state; empty before
    int64_t step = 0;
    size_t group = 0;
    bool owned = true;  // whether this rank updates param
    /// Returns whether the optimiser keeps state for the parameter, allocated or not.
    bool has_state() const { return owned && !is_compressed(param.dtype()); }
    bool has_gradient() const { return param.requires_grad() && param.grad().defined(); }
    bool is_live() const { return owned && has_gradient(); }  // whether the next step updates param
  };
  std::vector<Tensor> gradients() const override;
  void check_step() const override;
  void apply(double grad_scale) override;
  void keep_only(const std::set<const void*>& owned) override;
  std::vector<Tensor> initial_state(const Tensor& param) const;
  void make_state(Slot& slot) const;
  NamedTensors named_state(const std::vector<Slot>& slots) const;

  std::vector<ParameterGroup> groups_;
  double lr_;
  std::vector<State> states_;
  bool elementwise_;
  std::vector<Slot> slots_;
};

/// An optimiser whose update rule reads a whole parameter at once and uses ordinary tensor ops. It
/// suits rules with a matrix product, or with a norm per tensor. Example:
///   struct NormalizedSGD : optim::TensorOptimizer {
///     NormalizedSGD(optim::ParameterGroups params, double lr, double beta)
///         : TensorOptimizer("NormalizedSGD", std::move(params), lr, 0, {"u"}, [=](auto& p) {
///             p.state[0] = beta * p.state[0] + p.grad;
///             p.param -= p.lr * p.state[0] / sqrt(sum(p.state[0] * p.state[0]));
///           }) {}
///   };
class TensorOptimizer : public GroupOptimizer {
 public:
  /// The argument of an update rule: a parameter with its gradient and states. The rule changes
  /// `param` and `state`, in place or by assignment. step() copies assigned tensors into the
  /// optimiser's parameter and states, and throws Error if the rule changes a shape, a dtype or the
  /// number of states.
  struct Parameter {
    Tensor param;               ///< the parameter itself
    Tensor grad;                ///< a copy of the gradient, after clipping
    std::vector<Tensor> state;  ///< the parameter's states, in the order of states()
    double lr, weight_decay;    ///< values of the parameter group; lr includes the factor lr_scale
    int64_t step;               ///< number of updates of the parameter, including this one
  };

 protected:
  using Rule = std::function<void(Parameter&)>;  ///< updates one parameter
  /// Makes an optimiser whose steps call `rule` for one parameter after another, in the order of
  /// `groups`. If the rule throws, the earlier parameters have already been updated, and the failed
  /// step counts as an update of all parameters.
  TensorOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                  std::vector<State> states, Rule rule);

 private:
  void update(std::span<const Update> updates, double grad_scale) override;

  Rule rule_;
};

}  // namespace gradus::optim
