#pragma once
// Pictures about image models: confusion matrices, mistakes, attention, and features in the plane.

#include <string>
#include <vector>

#include "examples/pictures/plot.h"
#include "gradus/models/data/images/images.h"

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

/// A scatter plot of principal_plane(features), one colour per class (labels (N) int64).
Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names);

/// The factor by which pictures magnify images of this height.
int64_t picture_scale(int64_t height);

/// Attention as a red overlay: images (N, C, H, W) from 0 to 1, C 1 or 3, weights (N, h, w), where
/// h divides H and w divides W -> (N, 3, H, W). Each image's largest weight is the reddest.
Tensor attention_overlay(const Tensor& images, const Tensor& weights);
/// Writes each image beside its overlay, four pairs per row.
void draw_attention(const std::string& path, const Tensor& images, const Tensor& weights);

/// Draws a classifier's results into the folder `dir`: confusion.png, and mistakes.png with up to
/// 32 misclassified images, the most confident first, eight per row; prints what it wrote.
/// logits: (n, classes).
void show_mistakes(const std::string& dir, const models::ImageData& data, const Tensor& logits);

}  // namespace gradus
