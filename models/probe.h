#pragma once
// Simple classifiers for evaluating features that were learned without labels. Gradients do not
// flow to the features, and results depend only on the arguments. Features are (N, D) of a floating
// dtype with N >= 1 and D >= 1. D and the dtype must be the same for training and test. Labels are
// (N) int64 and at least 0. Training labels must be below 2^20. The functions throw Error on other
// features or labels.

#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

/// Features with labels.
struct LabelledFeatures {
  Tensor features, labels;  ///< features (N, D) of a floating dtype; labels (N) int64
};

struct LinearProbeOptions {
  int64_t steps = 300;         ///< number of updates, each on the whole training set
  double lr = 0.05;            ///< initial learning rate, with cosine decay to 0
  double weight_decay = 1e-3;  ///< weight decay of AdamW
};
/// Returns the test accuracy of multinomial logistic regression on frozen features. Features are
/// standardised by the mean and standard deviation of the training set; a feature with a standard
/// deviation of at most 1e-5 |mean| is only centred. Weights start at 0 and are trained by AdamW on
/// the whole training set at once.
double linear_probe(const LabelledFeatures& train, const LabelledFeatures& test,
                    const LinearProbeOptions& options = {});

struct NeighbourOptions {
  int64_t k = 20;             ///< number of neighbours that vote; all examples if there are fewer
  double temperature = 0.07;  ///< votes have weight exp(similarity / temperature); 0: equal weights
};
/// Returns the predicted class of each row of `test`: (N) int64. The k training examples with the
/// largest cosine similarity to the row vote on its class. Ties go to the smaller class. A class
/// that does not occur in the training set is never predicted. Wu et al. 2018, arXiv 1805.01978,
/// section 3.4.
Tensor nearest_neighbours(const LabelledFeatures& train, const Tensor& test,
                          const NeighbourOptions& options = {});
/// Returns the fraction of test examples for which nearest_neighbours() predicts the right class.
double neighbour_accuracy(const LabelledFeatures& train, const LabelledFeatures& test,
                          const NeighbourOptions& options = {});

}  // namespace gradus::models
