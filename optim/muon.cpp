#include "gradus/optim/muon.h"

#include <set>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/optim/chunks.h"

namespace gradus::optim {

namespace {

std::vector<Tensor> tensors_of(const std::vector<StackedMatrices>& params) {
  std::vector<Tensor> tensors;
  for (const StackedMatrices& p : params) tensors.push_back(p.param);
  return tensors;
}

}  // namespace

Muon::Muon(std::vector<StackedMatrices> params, const MuonOptions& options)
    : GroupOptimizer("Muon", tensors_of(params), options.lr, options.weight_decay, {"momentum"}),
      options_(options) {
  const double momentum = options.momentum;
  check(momentum >= 0 && momentum < 1, name(), ": expected 0 <= momentum < 1, got ", momentum);
  check(options.steps >= 1 && options.steps <= 100, name(), ": expected 1 to 100 steps, got ",
        options.steps);
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i].param;
    check(p.rank() >= 2, label(i, p), ": expected a matrix, of at least 2 axes");
    std::vector<int64_t>&rows = params[i].rows, &heads = params[i].heads;
    if (rows.empty()) rows = {p.size(0)};
    if (heads.empty()) heads.assign(rows.size(), 1);
    check(heads.size() == rows.size(), label(i, p), ": heads are given for ", heads.size(),
          " matrices, but it has ", rows.size());
    int64_t sum = 0;
    std::vector<int64_t>& all = rows_.emplace_back();
    for (size_t j = 0; j < rows.size(); ++j) {
      check(rows[j] >= 1 && rows[j] <= p.size(0), label(i, p), ": a matrix cannot have ", rows[j],
            " of its rows");
      check(heads[j] >= 1 && rows[j] % heads[j] == 0, label(i, p), ": a matrix of ", rows[j],
            " rows cannot have ", heads[j], " heads");
      sum += rows[j];
      const int64_t blocks = options.per_head ? heads[j] : 1;
      all.insert(all.end(), static_cast<size_t>(blocks), rows[j] / blocks);
    }
    check(sum == p.size(0), label(i, p), ": its matrices have ", sum, " rows together");
  }
}

void Muon::check_gradient(size_t index, const Tensor& grad) const {
  dispatch_floating(name(), grad.dtype(), [&]<class T>(TypeTag<T>) {
    const Tensor dense = grad.contiguous();
    const T* g = dense.data<T>();
    // 0 times a NaN or an infinity is a NaN.
    const T zero = parallel_sum<T>(grad.numel(), Chunks::grain, [&](int64_t begin, int64_t end) {
      const T* from = g + begin;
      return simd_sum<T>(end - begin, [=](int64_t i) { return T{0} * from[i]; });
    });
    check(zero == T{0}, label(index, grad), ": its gradient has a NaN or an infinity");
  });
}

/// One matrix of an update.
struct Muon::Matrix {
  const Update* update;
  int64_t row, rows, cols;
};

void Muon::update(std::span<const Update> updates, double grad_scale) {
  std::vector<Matrix> matrices;
  for (const Update& u : updates) {
    int64_t row = 0;
    for (const int64_t rows : rows_[u.index]) {
      matrices.push_back({&u, row, rows, u.param.numel() / u.param.size(0)});
      row += rows;
    }
  }
  // Large matrices first, so that all threads finish at about the same time.
  std::ranges::stable_sort(matrices, std::greater{},
                           [](const Matrix& m) { return m.rows * m.cols; });
  internal::for_each_matrix(std::ssize(matrices), [&](int64_t i) {
    const Matrix& matrix = matrices[static_cast<size_t>(i)];
    dispatch_floating(name(), matrix.update->grad.dtype(),
                      [&]<class T>(TypeTag<T>) { update_matrix<T>(matrix, grad_scale); });
  });
}

template <class T>
void Muon::update_matrix(const Matrix& matrix, double grad_scale) const {
  const Update& update = *matrix.update;
  const int64_t begin = matrix.row * matrix.cols, n = matrix.rows * matrix.cols;
  T *p = update.param.data<T>() + begin, *m = update.state[0].data<T>() + begin;
  const T* g = update.grad.data<T>() + begin;
  const auto keep = static_cast<T>(options_.momentum), take = static_cast<T>(1 - options_.momentum);
  const auto scale = static_cast<T>(grad_scale);
  const Scratch<T> direction(n), product(n);
  T *u = direction.data(), *y = product.data();
  const bool nesterov = options_.nesterov;
  const double squares = parallel_sum<double>(n, Chunks::grain, [=](int64_t from, int64_t to) {
    return simd_sum<double>(to - from, [=, m = m + from, g = g + from, u = u + from](int64_t i) {
      const T part = take * (scale * g[i]);
      m[i] = keep * m[i] + part;
      u[i] = nesterov ? keep * m[i] + part : m[i];
      return static_cast<double>(u[i]) * static_cast<double>(u[i]);
    });
  });
  const T factor = internal::newton_schulz(matrix.rows, matrix.cols,
                                           {.steps = options_.steps,
                                            .polar_express = options_.polar_express,
                                            .rounded = options_.bfloat16},
                                           squares, u, y);

  const double shape = static_cast<double>(matrix.rows) / static_cast<double>(matrix.cols);
  const auto lr = static_cast<T>(update.lr * std::sqrt(std::max(1.0, shape)));
  const auto decay = static_cast<T>(update.lr * update.weight_decay);
  const bool cautious = options_.cautious;
  parallel_for(n, Chunks::grain, [=](int64_t from, int64_t to) {
    simd_for(to - from, [=, p = p + from, u = u + from, y = y + from](int64_t i) {
      const T direction = factor * u[i] + y[i];
      const T kept = cautious && direction * p[i] <= 0 ? p[i] : p[i] - decay * p[i];
      p[i] = kept - lr * direction;
    });
  });
}

std::unique_ptr<CombinedOptimizer> muon_and_adamw(const std::vector<Tensor>& params,
                                                  std::vector<StackedMatrices> hidden,
                                                  const MuonAndAdamWOptions& options) {
  std::set<const void*> of_muon;
  for (const StackedMatrices& matrices : hidden) of_muon.insert(&matrices.param.impl());
  std::vector<Tensor> rest;
  for (const Tensor& p : params)
    if (!of_muon.contains(&p.impl())) rest.push_back(p);
  check(!hidden.empty(), "muon_and_adamw: there are no hidden matrices; use AdamW alone");
  check(!rest.empty(), "muon_and_adamw: there are hidden matrices only; use Muon alone");
  std::vector<std::unique_ptr<Optimizer>> parts;
  parts.push_back(std::make_unique<AdamW>(decay_groups(rest), options.adamw));
  parts.push_back(std::make_unique<Muon>(std::move(hidden), options.muon));
  return std::make_unique<CombinedOptimizer>(std::move(parts));
}

}  // namespace gradus::optim
