#include "gradus/models/muon.h"

#include <set>

#include "gradus/core/internal.h"

namespace gradus::models {

std::unique_ptr<optim::CombinedOptimizer> muon_and_adamw(const nn::Module& module,
                                                         const MuonAndAdamWOptions& options) {
  std::vector<optim::StackedMatrices> matrices;
  std::set<const void*> hidden;
  for (auto& [param, rows] : module.hidden_matrices()) {
    hidden.insert(&param.impl());
    matrices.push_back({param, rows});
  }
  std::vector<Tensor> rest;
  for (const Tensor& p : module.parameters())
    if (!hidden.contains(&p.impl())) rest.push_back(p);
  check(!matrices.empty(), "muon_and_adamw: the module has no hidden matrices; use AdamW alone");
  check(!rest.empty(), "muon_and_adamw: the module has hidden matrices only; use Muon alone");
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  parts.push_back(std::make_unique<optim::AdamW>(optim::decay_groups(rest), options.adamw));
  parts.push_back(std::make_unique<optim::Muon>(std::move(matrices), options.muon));
  return std::make_unique<optim::CombinedOptimizer>(std::move(parts));
}

}  // namespace gradus::models
