"""The benchmark's workloads in PyTorch: the same models, batches and training step, one JSON line each.

usage: python3 torch_peer.py [workload ...] [--seconds 4]

A training step is zero_grad, forward, loss, backward, clip and AdamW in float32 on random input. peers.py
runs it with the settings that make PyTorch fastest.
"""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Self-attention as PyTorch 1.13 users write it: one projection, masked softmax, projection."""

    def __init__(self, dim, heads, bias, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.proj = nn.Linear(dim, dim, bias=bias)

    def forward(self, x):
        batch, time_, dim = x.shape
        q, k, v = (part.view(batch, time_, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(dim, dim=-1))
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(batch, time_, dim))


def causal_attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = ~torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v


def full_attention(q, k, v):
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, dim, heads, bias, attend=causal_attention):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(dim), Attention(dim, heads, bias, attend)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim, bias=bias), nn.GELU(),
                                 nn.Linear(4 * dim, dim, bias=bias))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab, context, layers, heads, dim, bias):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads, bias) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(dim)
        for table in (self.wte, self.wpe):  # as in GPT-2: larger logits lead to denormal gradients, which are slow
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return self.ln_f(self.blocks(x)) @ self.wte.weight.t()

    def loss(self, ids, targets):
        return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())


class Seq2Seq(nn.Module):
    """nn.Transformer, 3 + 3 layers, between two embeddings and a linear layer."""

    def __init__(self, vocab=1000, dim=256):
        super().__init__()
        self.source, self.target = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim)
        self.transformer = nn.Transformer(dim, 8, 3, 3, 4 * dim, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocab)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=0.02)

    def loss(self, source, pair):
        inputs, targets = pair[:, 0], pair[:, 1]
        future = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
        y = self.transformer(self.source(source), self.target(inputs), tgt_mask=future)
        return F.cross_entropy(self.head(y).flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    """BERT with both heads, as in models/bert.h, made of PyTorch's encoder layers."""

    def __init__(self, vocab, context, layers, heads, dim, dropout=0.0):
        super().__init__()
        eps = 1e-12
        self.words, self.positions, self.segments = (nn.Embedding(n, dim) for n in (vocab, context, 2))
        self.embedding_norm, self.dropout = nn.LayerNorm(dim, eps), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout, F.gelu, eps,
                                                               batch_first=True) for _ in range(layers))
        for block in self.blocks:
            block.dropout.p = 0.0  # BERT has no dropout inside its feed-forward layers
        self.pooler, self.transform = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.transform_norm, self.next = nn.LayerNorm(dim, eps), nn.Linear(dim, 2)
        self.decoder = nn.Linear(dim, vocab)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        self.decoder.weight = self.words.weight

    def hidden(self, ids, segments, mask=None):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1])) + self.segments(segments)
        x = self.dropout(self.embedding_norm(x))
        for block in self.blocks:
            x = block(x, src_key_padding_mask=None if mask is None else ~mask)
        return x

    def word_logits(self, hidden):
        return self.decoder(self.transform_norm(F.gelu(self.transform(hidden))))

    def losses(self, ids, segments, mask, targets, is_next):
        """The losses of the masked words and of the next sentence."""
        hidden, places = self.hidden(ids, segments, mask), targets.flatten() != -100
        said = self.word_logits(hidden.flatten(0, 1)[places])
        pooled = torch.tanh(self.pooler(hidden[:, 0]))
        return F.cross_entropy(said, targets.flatten()[places]), F.cross_entropy(self.next(pooled), is_next)

    def loss(self, ids, segments, targets, is_next):
        return sum(self.losses(ids, segments, None, targets, is_next))


def masked_targets(ids):
    """15% of the tokens as targets, -100 elsewhere."""
    return torch.where(torch.rand(ids.shape) < 0.15, ids, torch.tensor(-100))


def bert(batch=32, length=128, vocab=4096):
    ids = torch.randint(0, vocab, (batch, length))
    segments = (torch.arange(length) >= length // 2).long().expand(batch, length).contiguous()
    return trainer(Bert(vocab, length, 4, 4, 256, dropout=0.1),
                   [ids, segments, masked_targets(ids), torch.randint(0, 2, (batch,))], batch * length)


class MLP(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))

    def loss(self, x, y):
        return F.cross_entropy(self(x), y)


class CharLSTM(nn.Module):
    """Two LSTM layers between an embedding and a linear head, over all positions."""

    def __init__(self, vocab=65, dim=256, layers=2):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(vocab, dim), nn.LSTM(dim, dim, layers, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def loss(self, ids, targets):
        return F.cross_entropy(self.head(self.rnn(self.embed(ids))[0]).flatten(0, 1), targets.flatten())


class ViT(nn.Module):
    def __init__(self, image, patch, channels, dim, layers, heads, classes):
        super().__init__()
        self.patch = nn.Conv2d(channels, dim, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (image // patch) ** 2, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads, True, full_attention) for _ in range(layers)))
        self.ln_f, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def features(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.ln_f(self.blocks(x))[:, 0]

    def loss(self, images, labels):
        return F.cross_entropy(self.head(self.features(images)), labels)


class Contrastive(nn.Module):
    """SimCLR: an encoder, a projection head and NT-Xent over the views of 2N images."""

    def __init__(self):
        super().__init__()
        self.encoder = ViT(28, 7, 1, 128, 4, 4, 10)
        self.head = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))

    def loss(self, a, b):
        z, n = F.normalize(self.head(self.encoder.features(torch.cat([a, b]))), dim=1), len(a)
        similarities = z @ z.t() / 0.1
        similarities.fill_diagonal_(-math.inf)
        return F.cross_entropy(similarities, torch.arange(2 * n).roll(n))


class AttentionCNN(nn.Module):
    """Two convolutions with pooling, and a transformer block over the remaining map."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.block, self.head = Block(64, 4, True, full_attention), nn.Linear(64, 10)

    def loss(self, images, labels):
        x = F.max_pool2d(F.relu(self.a(images)), 2)
        x = F.max_pool2d(F.relu(self.b(x)), 2)
        return F.cross_entropy(self.head(self.block(x.flatten(2).transpose(1, 2)).mean(1)), labels)


def conv():
    layer, images = nn.Conv2d(64, 64, 3, padding=1), torch.randn(32, 64, 32, 32, requires_grad=True)
    dy = torch.randn(32, 64, 32, 32)

    def step():
        torch.autograd.grad(layer(images), [images, layer.weight, layer.bias], dy)

    return step, 32


def trainer(model, batch, items, clip=True):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model.loss(*batch).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step, items


def gpt(vocab, context, layers, heads, dim, bias, batch, length):
    ids = [torch.randint(0, vocab, (batch, length)) for _ in range(2)]
    return trainer(GPT(vocab, context, layers, heads, dim, bias), ids, batch * length)


def lstm(batch=64, length=64):
    ids = [torch.randint(0, 65, (batch, length)) for _ in range(2)]
    return trainer(CharLSTM(), ids, batch * length)


def attention(length, heads=8, size=64):
    q, k, v = (torch.randn(1, heads, length, size, requires_grad=True) for _ in range(3))

    def step():
        causal_attention(q, k, v).sum().backward()
        q.grad = k.grad = v.grad = None

    return step, length


WORKLOADS = {
    "mlp": lambda: trainer(MLP(), [torch.randn(64, 784), torch.randint(0, 10, (64,))], 64, clip=False),
    "gpt-char": lambda: gpt(65, 64, 4, 4, 128, False, 12, 64),
    "gpt-baby": lambda: gpt(65, 256, 6, 6, 384, False, 16, 256),
    "gpt2-124M": lambda: gpt(50257, 1024, 12, 12, 768, True, 4, 64),
    "lstm": lstm,
    "seq2seq": lambda: trainer(Seq2Seq(), [torch.randint(0, 1000, (64, 32)), torch.randint(0, 1000, (64, 2, 32))],
                               64 * 32),
    "bert": bert,
    "vit": lambda: trainer(ViT(32, 4, 3, 192, 6, 3, 10), [torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))], 64),
    "contrastive": lambda: trainer(Contrastive(), [torch.randn(128, 1, 28, 28) for _ in range(2)], 128),
    "cnn-attention": lambda: trainer(AttentionCNN(), [torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))], 64),
    "conv": conv,
    **{f"attention-{n}": (lambda n=n: attention(n)) for n in (512, 1024, 2048, 4096, 8192)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="workload", help="default: all")
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    for name in options.workloads or WORKLOADS:
        torch.manual_seed(0)
        step, items = WORKLOADS[name]()
        for _ in range(2):
            step()
        times, start = [], time.perf_counter()
        while time.perf_counter() - start < options.seconds or len(times) < 3:
            before = time.perf_counter()
            step()
            times.append(time.perf_counter() - before)
        ms = sorted(times)[len(times) // 2] * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"workload": name, "ms": round(ms, 3), "items_per_s": round(items / ms * 1e3, 1),
                          "peak_rss_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
