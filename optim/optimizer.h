#pragma once
// Optimizer: what all optimisers share. An optimiser itself is its options and one update rule.

#include <optional>

#include "gradus/core/files/safetensors.h"

namespace gradus::optim {

/// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Tensor> params;  ///< each once in all groups
  double lr_scale = 1;         ///< their learning rate is lr_scale times the optimiser's
  std::optional<double> weight_decay = {};  ///< default: the optimiser's
};

/// Groups, or a plain list of parameters as one group.
struct ParameterGroups {
  std::vector<ParameterGroup> list;  ///< each updated with its own lr_scale and weight_decay
  ParameterGroups(std::vector<Tensor> params) : list{{.params = std::move(params)}} {}
  ParameterGroups(std::initializer_list<Tensor> params) : list{{.params = params}} {}
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : list(groups) {}
};

/// Two groups: matrices (rank >= 2) with the optimiser's weight decay; biases and norms without
/// any.
ParameterGroups decay_groups(const std::vector<Tensor>& params);

/// sqrt of the sum of all squared gradients, added up in double precision in a fixed order.
/// Parameters without a gradient count nothing.
double grad_norm(const std::vector<Tensor>& params);

/// Scales the gradients by min(1, max_norm / (norm + 1e-6)) and returns their norm before. An
/// optimiser's step() does the same, without writing the gradients, if given max_grad_norm.
double clip_grad_norm(const std::vector<Tensor>& params, double max_norm);

struct StepOptions {
  double max_grad_norm = std::numeric_limits<double>::infinity();  ///< clips as clip_grad_norm does
};

/// Updates parameters by their gradients. Those without a gradient are skipped, and so are those
/// that require none (frozen ones), until they do. What an optimiser remembers of each parameter
/// has the parameter's shape and dtype; a frozen one's is made at its first update. Messages call a
/// parameter by its place in the list, from 0.
///
/// An optimiser of your own is its options and one update rule, a template over float and double:
///   struct Signs : optim::Optimizer {
///     Signs(optim::ParameterGroups params, double lr)
///         : Optimizer("Signs", std::move(params), lr, 0, {}, [](const auto& c) {
///             for (int64_t i = 0; i < c.n; ++i) c.param[i] -= (c.grad[i] > 0 ? 1 : -1) * c.lr;
///           }) {}
///   };
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// How many quantities an optimiser can remember of a parameter.
  static constexpr int max_state = 3;
  /// A stretch of one parameter, with what an update rule needs.
  template <class T>
  struct Chunk {
    int64_t n;                ///< how many numbers
    T* param;                 ///< to be updated
    const T* grad;            ///< as backward left it
    T* state[max_state];      ///< in the order of the state's names; the others are null
    double lr, weight_decay;  ///< the group's: lr times lr_scale
    double grad_scale;        ///< what the gradient is to be multiplied by: clipping
    int64_t step;             ///< which update of this parameter it is, from 1
  };

  /// One update of all parameters that have a gradient, in one parallel pass. Returns the
  /// gradients' norm before clipping; 0 where max_grad_norm is infinite, when it is not computed.
  double step(const StepOptions& options = {});
  /// Clears the gradients.
  void zero_grad();

  double lr() const { return lr_; }  ///< before the groups' lr_scale
  /// Sets the learning rate of the steps to come.
  void set_lr(double lr);
  const std::vector<ParameterGroup>& groups() const { return groups_; }  ///< in the order given

  /// All that later steps depend on but for parameters, options and learning rate: "step", the
  /// number of updates of each parameter, and for each remembered quantity a tensor a parameter,
  /// "exp_avg.0".
  NamedTensors state_dict() const;
  /// Restores it. Throws one Error listing all names that do not fit; then nothing has been
  /// changed.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// As the public class says, with `rule` as what turns gradients into updates: it is called as
  /// rule(chunk) for a Chunk<float> or a Chunk<double>, on several threads at once, and must not
  /// throw. It remembers a tensor a parameter for each of `state_names`, at most max_state.
  template <class Rule>
  Optimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
            std::vector<std::string> state_names, const Rule& rule)
      : Optimizer(name, std::move(groups), lr, weight_decay, std::move(state_names),
                  Update{rule, rule}) {}

 private:
  struct Update {
    std::function<void(const Chunk<float>&)> of_float;
    std::function<void(const Chunk<double>&)> of_double;
  };
  Optimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
            std::vector<std::string> state_names, Update update);

  struct Slot {  // a parameter and what belongs to it
    Tensor param;
    Tensor state[max_state];
    int64_t step = 0;
    size_t group = 0;
  };
  std::string label(size_t i, const Tensor& p) const;
  void check_parameter(const Tensor& p) const;
  void make_state(Slot& slot) const;
  template <class T>
  void update_slot(const Slot& slot, const Tensor& grad, int64_t begin, double grad_scale) const;
  NamedTensors named_state(const Tensor& steps) const;
  Tensor steps() const;

  const char* name_;
  std::vector<ParameterGroup> groups_;
  double lr_;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;
  Update update_;
};

}  // namespace gradus::optim
