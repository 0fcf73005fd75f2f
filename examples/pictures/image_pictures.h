#pragma once
// What programs draw of images: which classes are taken for which, what is taken wrongly, where a
// model looks, and how its features lie.

#include <string>
#include <vector>

#include "examples/pictures/plot.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// How many images of class i (row) were taken for class j: labels and said (n) int64 -> (classes,
/// classes) float32.
Tensor confusion_matrix(const Tensor& labels, const Tensor& said, int64_t classes);

/// The shares of each row, as a picture whose darkest shade is the largest share off the diagonal.
HeatMap confusion_map(std::string path, const Tensor& counts,
                      const std::vector<std::string>& class_names);

/// Features (N, D), centred, along the two directions in which they vary most: (N, 2) float64, by
/// power iteration. What does not vary is at 0.
Tensor principal_plane(const Tensor& features);

/// Features there as points, each class (labels (N) int64) of its colour.
Picture embedding_plane(std::string path, const Tensor& features, const Tensor& labels,
                        const std::vector<std::string>& class_names);

/// How large a pixel of an image of that height is drawn.
int64_t picture_scale(int64_t height);

/// Where a model looks, laid over images as red: images (N, C, H, W) of numbers from 0 to 1, C 1 or
/// 3, weights (N, h, w), where h divides H and w W -> (N, 3, H, W). An image's largest weight is
/// the reddest.
Tensor attention_overlay(const Tensor& images, const Tensor& weights);
/// Writes images each beside its overlay, four pairs in a row.
void draw_attention(const std::string& path, const Tensor& images, const Tensor& weights);

/// Draws into the folder `dir` how a classifier does on images: confusion.png, and mistakes.png with
/// up to 32 that it takes wrongly, those that it is surest of first, eight in a row; tells what is in
/// them. logits (n, classes), one row an image.
void show_mistakes(const std::string& dir, const models::ImageData& data, const Tensor& logits);

}  // namespace gradus
