#pragma once
// ElementwiseOptimizer: optimisers that update each element separately, in one parallel pass.

#include "gradus/optim/optimizer.h"

namespace gradus::optim {

/// An optimiser whose rule updates each element from that element's value, gradient and state only.
/// The rule is a generic function that loops over a chunk of elements of one parameter, in float or
/// double. Example:
///   struct Signs : optim::ElementwiseOptimizer {
///     Signs(optim::ParameterGroups params, double lr)
///         : ElementwiseOptimizer("Signs", std::move(params), lr, 0, {}, [](const auto& c) {
///             for (int64_t i = 0; i < c.n; ++i) c.param[i] -= (c.grad[i] > 0 ? 1 : -1) * c.lr;
///           }) {}
///   };
class ElementwiseOptimizer : public GroupOptimizer {
 public:
  static constexpr int max_state = 3;  ///< maximum number of states per parameter
  /// Consecutive elements of one parameter, with all that a rule needs to update them.
  template <class T>
  struct Chunk {
    int64_t n;                ///< number of elements
    T* param;                 ///< the elements, updated by the rule
    const T* grad;            ///< gradient of the elements, before clipping
    T* state[max_state];      ///< states of the elements, in the order of the constructor's
                              ///< parameter `states`; unused entries are null
    double lr, weight_decay;  ///< values of the parameter group; lr includes the factor lr_scale
    double grad_scale;        ///< for clipping: the rule must multiply gradients by this factor,
                              ///< unless it reads only their signs
    int64_t step;             ///< number of updates of the parameter, including this one
    /// Returns `eps`, which must be >= 0, as a T. A positive eps below the smallest normal number
    /// of T is raised to that number, because rules run with denormals flushed to 0.
    static T eps_of(double eps) {
      return eps > 0 ? std::max(static_cast<T>(eps), std::numeric_limits<T>::min()) : T{0};
    }
  };

 protected:
  /// Makes an optimiser whose steps call rule(chunk) with a Chunk<float> or a Chunk<double>, on
  /// several threads at once. The rule must not throw. Throws Error if there are more than
  /// max_state `states`, or if the initial tensor of a state does not have the shape and dtype of
  /// its parameter.
  template <class Rule>
  ElementwiseOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                       std::vector<State> states, const Rule& rule)
      : ElementwiseOptimizer(name, std::move(groups), lr, weight_decay, std::move(states),
                             Rules{rule, rule}) {}

 private:
  struct Rules {
    std::function<void(const Chunk<float>&)> of_float;
    std::function<void(const Chunk<double>&)> of_double;
  };
  ElementwiseOptimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                       std::vector<State> states, Rules rules);
  void update(std::span<const Update> updates, double grad_scale) override;

  Rules rules_;
};

}  // namespace gradus::optim
