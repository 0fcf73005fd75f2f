#pragma once
// Optimizer and GroupOptimizer: parameter groups, state, clipping and saving, shared by all
// optimisers. A concrete optimiser adds its options and one update rule: per element (elementwise.h)
// or per tensor (TensorOptimizer).

#include <optional>
#include <set>
#include <span>

#include "gradus/optim/grad_norm.h"

namespace gradus::optim {

/// Parameters that share a learning rate and a weight decay.
struct ParameterGroup {
  std::vector<Tensor> params;  ///< no parameter twice, neither here nor in another group
  double lr_scale = 1;         ///< the group's learning rate is lr_scale times the optimiser's
  std::optional<double> weight_decay = {};  ///< default: the optimiser's
};

/// Groups, or a plain list of parameters as one group.
struct ParameterGroups {
  std::vector<ParameterGroup> list;  ///< each with its own lr_scale and weight_decay
  ParameterGroups(std::vector<Tensor> params) : list{{.params = std::move(params)}} {}
  ParameterGroups(std::initializer_list<Tensor> params) : list{{.params = params}} {}
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : list(groups) {}
};

/// Returns two groups: parameters of rank >= 2 (matrices), with the optimiser's weight decay, and
/// all others (biases and norms), with none.
ParameterGroups decay_groups(const std::vector<Tensor>& params);

/// Options of one step.
struct StepOptions {
  double max_grad_norm = std::numeric_limits<double>::infinity();  ///< clips as clip_grad_norm does
  /// The norm to clip by. Set it to the norm of all gradients if the parameters are sharded over
  /// several optimisers or processes. Default: the norm of this optimiser's gradients.
  std::optional<double> grad_norm = {};
};

/// A tensor that an optimiser keeps per parameter, such as a running mean of its gradients.
struct State {
  std::string name;  ///< such as "exp_avg", saved as "exp_avg.0", "exp_avg.1", ...
  std::function<Tensor(const Tensor& param)> initial;  ///< its initial value; default: zeros_like
  State(const char* name, std::function<Tensor(const Tensor& param)> initial = {})
      : name(name), initial(std::move(initial)) {}
};

/// Updates parameters by their gradients: what all optimisers have in common.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates all parameters that have a gradient. Returns the gradients' norm before clipping, or 0
  /// if neither max_grad_norm nor grad_norm is set. Throws Error, with nothing changed, if a
  /// parameter's dtype has changed since its last update.
  double step(const StepOptions& options = {});
  /// Clears the gradients.
  void zero_grad();
  /// All parameters, in the order given.
  virtual std::vector<Tensor> parameters() const = 0;

  virtual double lr() const = 0;  ///< the learning rate, without the groups' lr_scale
  /// Sets the learning rate from the next step on.
  virtual void set_lr(double lr) = 0;

  /// Everything that later steps depend on except parameters, options and learning rate.
  virtual NamedTensors state_dict() const = 0;
  /// Restores what state_dict() returned. Throws one Error that lists all names that do not fit,
  /// with nothing changed.
  virtual void load_state_dict(const NamedTensors& state) = 0;

 protected:
  explicit Optimizer(const char* name) : name_(name) {}
  const char* name() const { return name_; }  ///< first word of error messages

 private:
  friend class CombinedOptimizer;
  friend class ShardedOptimizer;
  /// The gradients of the parameters that the next step updates, contiguous.
  virtual std::vector<Tensor> gradients() const = 0;
  /// Throws Error if the next step cannot update its parameters.
  virtual void check_step() const = 0;
  /// Updates the parameters, with each gradient multiplied by `grad_scale`. Called under NoGrad,
  /// after check_step().
  virtual void apply(double grad_scale) = 0;
  /// From now on updates only the parameters in `owned`, and frees the others' state: state_dict()
  /// lists it as undefined tensors.
  virtual void keep_only(const std::set<const void*>& owned) = 0;

  const char* name_;
};

/// An optimiser with a state per parameter, the base of all but CombinedOptimizer. Skips parameters
/// without a gradient and frozen ones (requires_grad() false). If a parameter is frozen at
/// construction, its state is allocated at its first update. Error messages name a parameter by its
/// position among all groups' parameters, from 0.
class GroupOptimizer : public Optimizer {
 public:
  std::vector<Tensor> parameters() const override;
  double lr() const override { return lr_; }
  void set_lr(double lr) override;
  const std::vector<ParameterGroup>& groups() const { return groups_; }  ///< in the order given

  /// "step", the number of updates of each parameter, and a tensor such as "exp_avg.0" for each
  /// state of each parameter.
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 protected:
  /// One parameter in a step.
  struct Update {
    const Tensor& param;            ///< to be written in place
    Tensor grad;                    ///< contiguous, not clipped
    std::span<const Tensor> state;  ///< in the order of states()
    double lr, weight_decay;        ///< the group's: lr includes lr_scale
    int64_t step;                   ///< number of this update of the parameter, from 1
    size_t index;                   ///< the parameter's position among all groups' parameters
  };

  GroupOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                 std::vector<State> states);
  /// Writes the parameters and their state in place, with each gradient multiplied by `grad_scale`
  /// (clipping). Gradients are not recorded meanwhile.
  virtual void update(std::span<const Update> updates, double grad_scale) = 0;
  /// Throws Error, before anything is changed, if the parameter cannot be updated by `grad`.
  virtual void check_gradient(size_t /*index*/, const Tensor& /*grad*/) const {}

  const std::vector<State>& states() const { return states_; }  ///< as given to the constructor
  /// How messages name a parameter: "AdamW: parameter 3 of shape (2, 5)".
  std::string label(size_t index, const Tensor& param) const;

 private:
  struct Slot {  // a parameter and what belongs to it
    Tensor param;
    std::vector<Tensor> state;  // empty until allocated
    Dtype dtype;                // the parameter's when the state was allocated
    int64_t step = 0;
    size_t group = 0;
    bool owned = true;     // not another rank's to update
    bool is_live() const;  // the next step updates it
  };
  std::vector<Tensor> gradients() const override;
  void check_step() const override;
  void apply(double grad_scale) override;
  void keep_only(const std::set<const void*>& owned) override;
  void check_parameter(const Tensor& p) const;
  std::vector<Tensor> initial_state(const Tensor& param) const;
  void make_state(Slot& slot) const;
  NamedTensors named_state(const Tensor& steps) const;
  Tensor steps() const;

  std::vector<ParameterGroup> groups_;
  double lr_;
  std::vector<State> states_;
  std::vector<Slot> slots_;
};

/// An optimiser whose rule reads a whole parameter at a time, with ordinary ops: for rules with a
/// matrix product, or a norm per tensor.
///   struct NormalizedSGD : optim::TensorOptimizer {
///     NormalizedSGD(optim::ParameterGroups params, double lr, double beta)
///         : TensorOptimizer("NormalizedSGD", std::move(params), lr, 0, {"u"}, [=](auto& p) {
///             p.state[0] = beta * p.state[0] + p.grad;
///             p.param -= p.lr * p.state[0] / sqrt(sum(p.state[0] * p.state[0]));
///           }) {}
///   };
class TensorOptimizer : public GroupOptimizer {
 public:
  /// One parameter, with what an update rule needs. The rule writes `param` and `state`, in place
  /// or by assignment: an assigned tensor is copied, and must have the old one's shape and dtype.
  struct Parameter {
    Tensor param;               ///< the parameter itself
    Tensor grad;                ///< a copy of the gradient, after clipping
    std::vector<Tensor> state;  ///< in the order of states()
    double lr, weight_decay;    ///< the group's: lr includes lr_scale
    int64_t step;               ///< number of this update of the parameter, from 1
  };

 protected:
  using Rule = std::function<void(Parameter&)>;  ///< updates one parameter
  /// Calls `rule` for one parameter after another, in the order given. If it throws, the parameters
  /// before the one at fault have been updated.
  TensorOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                  std::vector<State> states, Rule rule);

 private:
  void update(std::span<const Update> updates, double grad_scale) override;

  Rule rule_;
};

}  // namespace gradus::optim
