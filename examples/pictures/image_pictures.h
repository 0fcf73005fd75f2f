#pragma once
// Pictures about image models: confusion matrices, mistakes, attention, and features in two
// dimensions.

#include <string>
#include <vector>

#include "examples/pictures/plot.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// Returns the confusion matrix: labels and predicted (n) int64 -> (classes, classes) float32.
/// Entry (i, j) is the number of images of class i that were classified as j.
Tensor confusion_matrix(const Tensor& labels, const Tensor& predicted, int64_t classes);

/// Returns a heat map of the counts as fractions of their row. The darkest shade is the largest
/// fraction off the diagonal.
HeatMap confusion_map(std::string path, const Tensor& counts,
                      const std::vector<std::string>& class_names);

/// Returns the first two principal components of features (N, D): (N, 2) float64, by power
/// iteration. For constant features they are 0.
Tensor principal_plane(const Tensor& features);

/// Returns a scatter plot of principal_plane(features) with one colour per class. labels is (N)
/// int64.
Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names);

/// Returns the factor by which pictures enlarge images of this height.
int64_t picture_scale(int64_t height);

/// Returns images with their attention weights as a red overlay: images (N, C, H, W) with values
/// from 0 to 1 and C = 1 or 3, weights (N, h, w), where h divides H and w divides W -> (N, 3, H,
/// W). The largest weight of each image is the most red.
Tensor attention_overlay(const Tensor& images, const Tensor& weights);
/// Writes a picture of each image beside its overlay, four pairs per row.
void draw_attention(const std::string& path, const Tensor& images, const Tensor& weights);

/// Draws a classifier's results into the folder `dir`: confusion.png, and mistakes.png with up to
/// 32 misclassified images, the most confident first, eight per row. Prints what it wrote. logits
/// is (n, classes).
void show_mistakes(const std::string& dir, const models::ImageData& data, const Tensor& logits);

}  // namespace gradus
