#pragma once
// Optimizer: what all optimisers share. An optimiser itself is its options and one update rule.

#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gradus/core/safetensors.h"
#include "gradus/core/tensor.h"

namespace gradus::optim {

/// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Tensor> params;
  double lr_scale = 1;  ///< their learning rate is lr_scale times the optimiser's
  std::optional<double> weight_decay = {};  ///< default: the optimiser's
};

/// Groups, or a plain list of parameters as one group.
struct ParameterGroups {
  std::vector<ParameterGroup> list;
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
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of all parameters that have a gradient, in one parallel pass. Returns the
  /// gradients' norm before clipping; 0 where max_grad_norm is infinite, when it is not computed.
  double step(const StepOptions& options = {});
  /// Clears the gradients.
  void zero_grad();

  double lr() const { return lr_; }
  /// Sets the learning rate of the steps to come.
  void set_lr(double lr);
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  /// All that later steps depend on but for parameters, options and learning rate: "step", the
  /// number of updates of each parameter, and for each remembered quantity a tensor a parameter,
  /// "exp_avg.0".
  NamedTensors state_dict() const;
  /// Restores it. Throws one Error listing all names that do not fit; then nothing has been
  /// changed.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// A stretch of one parameter, with what an update rule needs.
  template <class T>
  struct Chunk {
    int64_t n;
    T* param;
    const T* grad;
    T* state[2];  ///< in the order of `state_names`
    double lr, weight_decay, grad_scale;
    int64_t step;  ///< which update of this parameter it is, from 1
  };

  Optimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
            std::vector<std::string> state_names);
  /// The update rule. Called on several threads at once; must not throw.
  virtual void update(const Chunk<float>& chunk) const = 0;
  virtual void update(const Chunk<double>& chunk) const = 0;

 private:
  struct Slot {  // a parameter and what belongs to it
    Tensor param;
    Tensor state[2];
    int64_t step = 0;
    size_t group = 0;
    Tensor grad;  // contiguous, while step() runs
  };
  std::string label(size_t i, const Tensor& p) const;
  void check_parameter(const Tensor& p) const;
  void make_state(Slot& slot) const;
  template <class T>
  void update_slot(const Slot& slot, int64_t begin, int64_t end, double grad_scale) const;
  NamedTensors named_state(const Tensor& steps) const;
  Tensor steps() const;

  const char* name_;
  std::vector<ParameterGroup> groups_;
  double lr_;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;
};

}  // namespace gradus::optim
