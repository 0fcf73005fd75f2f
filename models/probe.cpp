#include "gradus/models/probe.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/optimizers.h"
#include "gradus/optim/schedule.h"

namespace gradus::models {

namespace {
void check_features(const char* op, const Tensor& x) {
  check(x.defined() && x.rank() == 2 && x.numel() > 0 && is_floating(x.dtype()), op,
        ": expected features (N, D) of a floating dtype, got ", x.defined() ? x.shape() : Shape{});
}

void check_labelled(const char* op, const LabelledFeatures& data) {
  check_features(op, data.features);
  check(data.labels.defined() && data.labels.dtype() == int64 &&
            data.labels.shape() == Shape{data.features.size(0)} &&
            min(data.labels).item<int64_t>() >= 0,
        op, ": expected ", data.features.size(0), " labels of int64 from 0 on");
}

/// Checks both sets. Returns the number of classes: the training set's largest label + 1.
int64_t check_sets(const char* op, const LabelledFeatures& train, const Tensor& test) {
  check_labelled(op, train);
  check_features(op, test);
  check(test.size(1) == train.features.size(1) && test.dtype() == train.features.dtype(), op,
        ": training and test features differ: ", train.features.dtype(), " ",
        train.features.shape(), ", ", test.dtype(), " ", test.shape());
  const int64_t largest = max(train.labels).item<int64_t>();
  check(largest < (int64_t{1} << 20), op, ": expected labels below 2^20, got ", largest);
  return largest + 1;
}
}  // namespace

double linear_probe(const LabelledFeatures& train, const LabelledFeatures& test,
                    const LinearProbeOptions& o) {
  const int64_t classes = check_sets("linear_probe", train, test.features);
  check_labelled("linear_probe", test);
  check(o.steps >= 1, "linear_probe: expected steps >= 1, got ", o.steps);
  Tensor x, centre, deviation;
  {
    const NoGrad no_grad;
    centre = mean(train.features, 0);
    deviation = std_dev(train.features, 0, 0);
    deviation = masked_fill(deviation, deviation <= abs(centre) * 1e-5, 1);  // constant features
    x = (train.features - centre) / deviation;
  }
  const GradMode grad(true);
  const Tensor weight = zeros({classes, x.size(1)}, x.dtype()).requires_grad_(),
               bias = zeros({classes}, x.dtype()).requires_grad_();
  optim::AdamW optimizer(optim::decay_groups({weight, bias}),
                         {.lr = o.lr, .weight_decay = o.weight_decay});
  for (int64_t step = 0; step < o.steps; ++step) {
    optimizer.set_lr(optim::schedule::cosine(step, {.lr = o.lr, .steps = o.steps}));
    optimizer.zero_grad();
    cross_entropy(linear(x, weight, bias), train.labels).backward();
    optimizer.step();
  }
  const NoGrad no_grad;
  const Tensor predicted = argmax(linear((test.features - centre) / deviation, weight, bias), 1);
  return mean(predicted == test.labels).item();
}

Tensor nearest_neighbours(const LabelledFeatures& train, const Tensor& test,
                          const NeighbourOptions& o) {
  const int64_t classes = check_sets("nearest_neighbours", train, test);
  check(o.k >= 1 && o.temperature >= 0,
        "nearest_neighbours: expected k >= 1 and a temperature >= 0, ", "got ", o.k, " and ",
        o.temperature);
  const NoGrad no_grad;
  const Tensor keys = normalize(train.features, 1);
  const int64_t k = std::min(o.k, keys.size(0));
  std::vector<Tensor> predicted;
  for (const Tensor& queries : normalize(test, 1).split(256, 0)) {
    const auto [similarity, neighbours] = topk(matmul(queries, keys.mT()), k, 1);
    const Tensor voters =
        index_select(train.labels, 0, neighbours.reshape({-1})).reshape(neighbours.shape());
    // Subtracting the largest similarity keeps exp from overflowing.
    const Tensor weights = o.temperature > 0
                               ? exp((similarity - similarity.slice(1, 0, 1)) / o.temperature)
                               : ones_like(similarity);
    predicted.push_back(argmax(scatter_sum({queries.size(0), classes}, 1, voters, weights), 1));
  }
  return cat(predicted, 0);
}

double neighbour_accuracy(const LabelledFeatures& train, const LabelledFeatures& test,
                          const NeighbourOptions& options) {
  check_labelled("nearest_neighbours", test);
  return mean(nearest_neighbours(train, test.features, options) == test.labels).item();
}

}  // namespace gradus::models
