#pragma once
// Evaluation of features learned without labels by simple classifiers. No gradients are recorded,
// and results depend only on the arguments. Features are (N, D) of a floating dtype with N >= 1,
// labels (N) int64 from 0 on; other shapes and negative labels throw Error. Classes absent from the
// training set are never predicted.

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

/// Features with labels.
struct LabelledFeatures {
  Tensor features, labels;  ///< (N, D) of a floating dtype; (N) int64
};

struct LinearProbeOptions {
  int64_t steps = 300;         ///< number of full-batch updates
  double lr = 0.05;            ///< initial learning rate, with cosine decay to 0
  double weight_decay = 1e-3;  ///< of AdamW
};
/// Test accuracy of multinomial logistic regression on frozen features, which are standardised by
/// the training set's mean and deviation. Weights start at 0 and are trained by full-batch AdamW.
double linear_probe(const LabelledFeatures& train, const LabelledFeatures& test,
                    const LinearProbeOptions& options = {});

struct NeighbourOptions {
  int64_t k = 20;             ///< neighbours that vote; if the training set is smaller, all of it
  double temperature = 0.07;  ///< votes have weight exp(similarity / temperature); 0: equal weights
};
/// Predicted classes by a vote of the k training examples with the largest cosine similarity, ties
/// going to the smaller class: (N) int64, one per row of `test`. Wu et al. 2018, arXiv 1805.01978,
/// section 3.4.
Tensor nearest_neighbours(const LabelledFeatures& train, const Tensor& test,
                          const NeighbourOptions& options = {});
/// Test accuracy of nearest_neighbours.
double neighbour_accuracy(const LabelledFeatures& train, const LabelledFeatures& test,
                          const NeighbourOptions& options = {});

}  // namespace gradus::models
