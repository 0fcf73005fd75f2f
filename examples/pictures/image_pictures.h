#pragma once
// Pictures about image models: confusion matrices, mistakes, attention, and features in two
// dimensions.

#include <optional>
#include <string>
#include <vector>

#include "examples/pictures/plot.h"
#include "gradus/models/data/images/images.h"
#include "gradus/models/probe.h"

namespace gradus {

/// Returns the confusion matrix: labels and predicted (n) int64 -> (classes, classes) float32.
/// Entry (i, j) is the number of images of class i that were classified as j.
Tensor confusion_matrix(const Tensor& labels, const Tensor& predicted, int64_t classes);

/// Returns a heat map of a confusion matrix, with each count divided by the sum of its row. The
/// largest off-diagonal value, and all values above it, are black. If all off-diagonal values are
/// 0, only the value 1 is black.
HeatMap confusion_map(std::string path, const Tensor& counts,
                      const std::vector<std::string>& class_names);

/// Returns the projections of features (N, D) on their first two principal components: (N, 2)
/// float64. Uses power iteration. If all rows are equal, the result is 0. Throws Error unless
/// `features` has rank 2 and at least one element.
Tensor principal_plane(const Tensor& features);

/// Returns a scatter plot of principal_plane(features), with one series per class that occurs in
/// `labels`, (N) int64. If the name of a class is a shape and colour, such as "red circle" (see
/// models::shape_of_class), its points have this shape and colour. If the name of a class is a
/// single character, one terminal column wide, its points are drawn as that character.
Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names);

/// Returns images with their attention weights as a red overlay: images (N, C, H, W), weights
/// (N, h, w) -> (N, 3, H, W). C is 1 or 3, the images' values are from 0 to 1, h divides H, and w
/// divides W. Red is strongest at the largest weight of each image.
Tensor attention_overlay(const Tensor& images, const Tensor& weights);
/// Returns tiles with each image of the batch (values from 0 to 1) beside its attention_overlay().
/// Below the image are the names of its class and of the predicted class. predicted is (N) int64.
Tiles attention_tiles(std::string path, const models::ImageBatch& batch, const Tensor& weights,
                      const Tensor& predicted, const std::vector<std::string>& class_names);

/// Returns tiles with up to 32 misclassified images, the most confident first. Below each image are
/// the names of its class and of the predicted class. Returns nullopt if no image is misclassified.
/// `logits` holds the logits (n, classes) and labels of all images of `data`.
std::optional<Tiles> mistake_tiles(std::string path, const models::ImageData& data,
                                   const models::LabelledFeatures& logits);
/// Draws confusion.png and mistakes.png into the folder `dir` by draw_or_write(), and prints the
/// lines that draw_or_write() returns. If no image is misclassified, removes an old mistakes.png
/// instead of drawing one. Throws Error, naming the file, if it cannot be removed.
void show_mistakes(const std::string& dir, const models::ImageData& data,
                   const models::LabelledFeatures& logits);

}  // namespace gradus
