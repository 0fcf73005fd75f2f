#pragma once
// Pictures about image models: confusion matrices, mistakes, attention, and features in the plane.

#include <optional>
#include <string>
#include <vector>

#include "examples/pictures/plot.h"
#include "gradus/models/data/images/images.h"
#include "gradus/models/probe.h"

namespace gradus {

/// The confusion matrix, the number of images of class i (row) that were classified as j: labels
/// and predicted (n) int64 -> (classes, classes) float32.
Tensor confusion_matrix(const Tensor& labels, const Tensor& predicted, int64_t classes);

/// A heat map of the counts as fractions of their row. The darkest shade is the largest fraction
/// off the diagonal.
HeatMap confusion_map(std::string path, const Tensor& counts,
                      const std::vector<std::string>& class_names);

/// The first two principal components of features (N, D): (N, 2) float64, by power iteration.
/// Constant features give 0.
Tensor principal_plane(const Tensor& features);

/// A scatter plot of principal_plane(features), one mark per class (labels (N) int64): for drawn
/// shapes the shape in its colour, for names of one character the character.
Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names);

/// Attention as a red overlay: images (N, C, H, W) from 0 to 1, C 1 or 3, weights (N, h, w), where
/// h divides H and w divides W -> (N, 3, H, W). Each image's largest weight is the reddest.
Tensor attention_overlay(const Tensor& images, const Tensor& weights);
/// Each image of the batch, values from 0 to 1, beside its overlay, with the names of its class and
/// of the class predicted for it; predicted (N) int64.
Tiles attention_tiles(std::string path, const models::ImageBatch& batch, const Tensor& weights,
                      const Tensor& predicted, const std::vector<std::string>& class_names);

/// Up to 32 misclassified images, the most confident first, with the names of their classes and of
/// the classes they are taken for; nothing if there are none. `logits` holds logits (n, classes)
/// and labels for all images of `data`.
std::optional<Tiles> mistake_tiles(std::string path, const models::ImageData& data,
                                   const models::LabelledFeatures& logits);
/// Draws confusion.png and mistakes.png into the folder `dir`, and prints what it drew.
void show_mistakes(const std::string& dir, const models::ImageData& data,
                   const models::LabelledFeatures& logits);

}  // namespace gradus
