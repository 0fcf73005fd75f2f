#pragma once
// How good features are that were learned without labels: by what simple classifiers make of them.
// None has a gradient, and all are functions of their arguments alone. Features are (N, D) of a
// floating dtype, N >= 1, labels (N) int64 from 0 on; other shapes and negative labels throw Error.
// A class that the training set does not show is never named.

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

/// Features with their labels.
struct LabelledFeatures {
  Tensor features, labels;  ///< (N, D) of a floating dtype; (N) int64
};

struct LinearProbeOptions {
  int64_t steps = 300;         ///< updates, over all examples each
  double lr = 0.05;            ///< at first; falls to 0 as a cosine
  double weight_decay = 1e-3;  ///< of AdamW
};
/// Multinomial logistic regression on features that stay as they are, each standardised by the
/// training set's mean and deviation: AdamW from 0 over all examples at once. The share of the test
/// set that it gets right.
double linear_probe(const LabelledFeatures& train, const LabelledFeatures& test,
                    const LinearProbeOptions& options = {});

struct NeighbourOptions {
  int64_t k = 20;             ///< neighbours that vote; at most as many as there are
  double temperature = 0.07;  ///< a vote's weight is exp(similarity / temperature); 0: all alike
};
/// The class that the k training examples of the largest cosine similarity vote for, the one with
/// the smaller number where votes are equal: (N test) int64. Wu et al. 2018, arXiv 1805.01978,
/// section 3.4.
Tensor nearest_neighbours(const LabelledFeatures& train, const Tensor& test,
                          const NeighbourOptions& options = {});
/// The share of the test set that they get right.
double neighbour_accuracy(const LabelledFeatures& train, const LabelledFeatures& test,
                          const NeighbourOptions& options = {});

}  // namespace gradus::models
