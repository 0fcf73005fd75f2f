#!/usr/bin/env python3
"""Makes images.safetensors: images under affine maps, by PyTorch's affine_grid and grid_sample, in float64.

images (N, C, H, W), theta (N, 2, 3) as affine_grid takes it, warped (N, C, H, W): bilinear, zeros outside,
align_corners=False.
"""
import torch
import torch.nn.functional as F

from golden import begin, save


def main():
    begin(5)
    images = torch.rand(8, 2, 7, 10, dtype=torch.float64)
    theta = torch.eye(2, 3, dtype=torch.float64) + 0.5 * torch.randn(8, 2, 3, dtype=torch.float64)
    theta[0] = torch.eye(2, 3)
    theta[1, :, 2] = torch.tensor([0.9, -1.8])  # nearly all outside
    grid = F.affine_grid(theta, images.shape, align_corners=False)
    warped = F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    save("images", {"images": images, "theta": theta, "warped": warped})


if __name__ == "__main__":
    main()
