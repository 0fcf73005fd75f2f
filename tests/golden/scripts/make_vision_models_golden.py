#!/usr/bin/env python3
"""Makes vision_models.safetensors: small vision models in PyTorch, their losses and the gradients of all parameters.

Written from the papers, with our names of parameters.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from golden import F64, VIT_NAMES, begin, our_name, perturb, save
from torch_peer import Block, ViT, full_attention


class Encoder(ViT):
    """A ViT without a head that reads the patches listed: all of them, or those that a mask leaves."""

    def __init__(self, image, patch, channels, dim, layers, heads):
        super().__init__(image, patch, channels, dim, layers, heads, 1)
        del self.head

    def encode(self, images, shown=None):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.positions[:, 1:]
        if shown is not None:
            x = x.gather(1, shown[..., None].expand(-1, -1, x.shape[-1]))
        first = (self.class_token + self.positions[:, :1]).expand(len(x), -1, -1)
        return self.ln_f(self.blocks(torch.cat([first, x], 1)))


class MAE(nn.Module):
    """He et al. 2022; the loss as in their equation: over hidden patches, of pixels normalised per patch."""

    def __init__(self, image=6, patch=2, channels=2, dim=12, width=8):
        super().__init__()
        self.encoder = Encoder(image, patch, channels, dim, 2, 3)
        patches = (image // patch) ** 2
        self.decoder_embed = nn.Linear(dim, width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.decoder_positions = nn.Parameter(torch.zeros(1, 1 + patches, width))
        self.decoder_blocks = nn.Sequential(Block(width, 2, True, full_attention))
        self.decoder_norm, self.decoder_head = nn.LayerNorm(width), nn.Linear(width, channels * patch * patch)
        self.p = patch

    def loss(self, images, order):
        batch, patches = order.shape
        hidden = round(0.75 * patches)
        shown, others = order[:, :patches - hidden], order[:, patches - hidden:]
        x = self.decoder_embed(self.encoder.encode(images, shown))
        tokens = self.mask_token.expand(batch, patches, -1).clone()
        y = tokens.scatter(1, shown[..., None].expand(-1, -1, tokens.shape[-1]), x[:, 1:])
        y = torch.cat([x[:, :1], y], 1) + self.decoder_positions
        y = self.decoder_head(self.decoder_norm(self.decoder_blocks(y)))[:, 1:]
        target = F.unfold(images, self.p, stride=self.p).transpose(1, 2)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6).sqrt()
        index = others[..., None].expand(-1, -1, target.shape[-1])
        return F.mse_loss(y.gather(1, index), target.gather(1, index))


class CLIP(nn.Module):
    """Radford et al. 2021, figure 3; a text's features are its last token's."""

    def __init__(self, dim=8, shared=6):
        super().__init__()
        self.image = Encoder(6, 3, 2, dim, 1, 2)
        self.text = nn.Module()
        self.text.tokens, self.text.positions = nn.Embedding(9, dim), nn.Parameter(torch.zeros(1, 5, dim))
        self.text.blocks, self.text.ln_f = nn.Sequential(Block(dim, 2, True)), nn.LayerNorm(dim)
        self.image_projection = nn.Linear(dim, shared, bias=False)
        self.text_projection = nn.Linear(dim, shared, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def loss(self, images, ids, lengths):
        x = self.text.ln_f(self.text.blocks(self.text.tokens(ids) + self.text.positions))
        a = F.normalize(self.image_projection(self.image.encode(images)[:, 0]), dim=-1)
        b = F.normalize(self.text_projection(x[torch.arange(len(x)), lengths - 1]), dim=-1)
        logits = self.logit_scale.exp() * a @ b.T
        own = torch.arange(len(x))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


class Captioner(nn.Module):
    """Xu et al. 2015, sections 3.1 and 4.2, with convolutions of stride 2 and attention after Bahdanau et al. 2015."""

    def __init__(self, lstm, vocab=9, filters=3, dim=5, hidden=7):
        super().__init__()
        features = 2 * filters
        self.convolutions = nn.ModuleList([nn.Conv2d(2, filters, 3, 2, 1), nn.Conv2d(filters, features, 3, 2, 1),
                                           nn.Conv2d(features, features, 3, 1, 1)])
        self.first, self.words = nn.Linear(features, 2 * hidden if lstm else hidden), nn.Embedding(vocab, dim)
        self.attention = nn.Module()
        self.attention.query = nn.Linear(hidden, hidden)
        self.attention.key = nn.Linear(features, hidden, bias=False)
        self.attention.v = nn.Parameter(torch.randn(1, hidden))
        self.gate = nn.Linear(hidden, features)
        self.cell = (nn.LSTMCell if lstm else nn.GRUCell)(dim + features, hidden)
        self.readout, self.head = nn.Linear(hidden + features, dim), nn.Linear(dim, vocab)
        self.lstm = lstm

    def loss(self, images, ids, lengths, coverage):
        a = images
        for conv in self.convolutions:
            a = conv(a).relu()
        a = a.flatten(2).transpose(1, 2)
        state = torch.tanh(self.first(a.mean(1))).chunk(2, -1) if self.lstm else torch.tanh(self.first(a.mean(1)))
        total, looked = 0, torch.zeros(a.shape[:2])
        for t in range(ids.shape[1] - 1):
            h, y = state[0] if self.lstm else state, self.words(ids[:, t])
            scores = torch.tanh(self.attention.query(h)[:, None] + self.attention.key(a)) @ self.attention.v[0]
            alpha = scores.softmax(-1)
            z = torch.sigmoid(self.gate(h)) * (alpha[..., None] * a).sum(1)
            state = self.cell(torch.cat([y, z], -1), state)
            logits = self.head(y + self.readout(torch.cat([state[0] if self.lstm else state, z], -1)))
            real = (t + 1 < lengths).double()
            total = total + (F.cross_entropy(logits, ids[:, t + 1], reduction="none") * real).sum()
            looked = looked + alpha * real[:, None]
        return total / (lengths - 1).sum() + coverage * ((1 - looked) ** 2).mean()


class CNNAttention(nn.Module):
    """A small network with the self-attention of SAGAN, Zhang et al. 2019, equations 1 to 3."""

    def __init__(self, filters=4, classes=5):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, filters, 3, padding=1), nn.Conv2d(filters, 2 * filters, 3, padding=1)
        self.attention = nn.Module()
        self.attention.query = nn.Conv2d(2 * filters, filters // 4, 1)
        self.attention.key = nn.Conv2d(2 * filters, filters // 4, 1)
        self.attention.value = nn.Conv2d(2 * filters, 2 * filters, 1)
        self.attention.gamma = nn.Parameter(torch.tensor(0.5))
        self.head = nn.Linear(2 * filters * 4, classes)  # a map of 2 x 2 positions

    def loss(self, images, labels):
        x = F.max_pool2d(self.conv1(images).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        f, g, h = (getattr(self.attention, name)(x).flatten(2) for name in ("key", "query", "value"))
        beta = torch.einsum("bci,bcj->bji", f, g).softmax(-1)  # how much position j attends to position i
        x = x + self.attention.gamma * torch.einsum("bji,bci->bcj", beta, h).view_as(x)
        return F.cross_entropy(self.head(x.flatten(1)), labels)


def record(out, case, model, *inputs):
    """Adds the model's parameters, moved so that none is 0, its loss, and their gradients."""
    perturb(model)
    loss = model.loss(*inputs)
    loss.backward()
    out[case + ".loss"] = loss.detach()
    for name, p in model.named_parameters():
        out[case + ".param." + our_name(name, VIT_NAMES)] = p.detach().clone()
        out[case + ".grad." + our_name(name, VIT_NAMES)] = p.grad


def main():
    begin(9, F64)
    out = {"images": torch.randn(4, 2, 6, 6), "order": torch.stack([torch.randperm(9) for _ in range(4)])}
    record(out, "mae", MAE(), out["images"], out["order"])
    out.update({"ids": torch.randint(0, 9, (4, 5)), "lengths": torch.tensor([5, 3, 1, 4])})
    record(out, "clip", CLIP(), out["images"], out["ids"], out["lengths"])
    out["captions"] = torch.tensor([5, 3, 2, 4])
    record(out, "captioner_lstm", Captioner(True), out["images"], out["ids"], out["captions"], 0.5)
    record(out, "captioner_gru", Captioner(False), out["images"], out["ids"], out["captions"], 0)
    out.update({"large_images": torch.randn(3, 2, 10, 10), "labels": torch.tensor([4, 0, 2])})
    record(out, "cnn_attention", CNNAttention(), out["large_images"], out["labels"])
    save("vision_models", out)


if __name__ == "__main__":
    main()
