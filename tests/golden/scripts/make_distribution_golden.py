#!/usr/bin/env python3
"""Makes distributions.safetensors: torch.distributions' log-probabilities, entropies and divergences, with gradients.

For each case: its inputs in.0, in.1, ...; out; dy, the random gradient of out; grad.0, ... of the inputs that have one.
tests/nn/distributions_test.cpp holds the same cases.
"""
import torch
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from golden import F64, begin, cases, normal, record_cases, save


def inside(*shape):
    """Numbers from 0.05 to 0.95."""
    return torch.rand(shape, dtype=F64) * 0.9 + 0.05


def declare_normal():
    m, s, other_m, other_s = normal(3, 1), inside(5) * 3, normal(3, 5), inside(3, 1) * 2
    cases((m, s, normal(7, 3, 5)), {"normal_log_prob": lambda m, s, x: Normal(m, s).log_prob(x)})
    cases((m, s, normal(5)), {"normal_log_prob_wide": lambda m, s, x: Normal(m, s).log_prob(x)})
    cases((m, s), {"normal_entropy": lambda m, s: Normal(m, s).entropy()})
    cases((m, s, other_m, other_s), {
        "normal_kl": lambda m, s, n, t: kl_divergence(Normal(m, s), Normal(n, t))})


def declare_categorical():
    x, other, p = normal(3, 1, 5) * 2, normal(2, 5) * 2, inside(3, 2, 5)
    excluding = normal(4, 5)
    excluding[0, 1] = excluding[2, 4] = -torch.inf
    steep = torch.tensor([[0, 1e3, -1e3], [1e9, 0, -1e9], [700, 0, 5]], dtype=F64)
    k = torch.randint(0, 5, (3, 2))
    cases((x, k), {"categorical_log_prob": lambda x, k: Categorical(logits=x).log_prob(k)})
    cases((p, k), {"categorical_log_prob_p": lambda p, k: Categorical(probs=p).log_prob(k)})
    cases((p, torch.randint(0, 5, (7, 1, 1))), {
        "categorical_log_prob_wide": lambda p, k: Categorical(probs=p).log_prob(k)})
    for name, given in (("", x), ("_excluding", excluding), ("_steep", steep)):
        cases((given,), {"categorical_entropy" + name: lambda x: Categorical(logits=x).entropy()})
    cases((p,), {"categorical_entropy_p": lambda p: Categorical(probs=p).entropy()})
    cases((x, other), {
        "categorical_kl": lambda x, y: kl_divergence(Categorical(logits=x), Categorical(logits=y))})
    cases((excluding, normal(4, 5)), {
        "categorical_kl_excluding": lambda x, y: kl_divergence(Categorical(logits=x), Categorical(logits=y))})
    cases((normal(4, 5), excluding), {
        "categorical_kl_infinite": lambda x, y: kl_divergence(Categorical(logits=x), Categorical(logits=y))})
    cases((p, inside(5)), {
        "categorical_kl_p": lambda p, q: kl_divergence(Categorical(probs=p), Categorical(probs=q))})


def declare_bernoulli():
    x, other, p = normal(3, 1) * 3, normal(4) * 3, inside(3, 4)
    steep = torch.tensor([-1e9, -800.0, -30, 30, 800, 1e9], dtype=F64)
    value = torch.randint(0, 2, (5, 3, 4)).to(F64)
    cases((x, value), {"bernoulli_log_prob": lambda x, v: Bernoulli(logits=x).log_prob(v)})
    cases((p, value), {"bernoulli_log_prob_p": lambda p, v: Bernoulli(p).log_prob(v)})
    cases((steep, torch.tensor([[0.0], [1]], dtype=F64)), {
        "bernoulli_log_prob_steep": lambda x, v: Bernoulli(logits=x).log_prob(v)})
    cases((x,), {"bernoulli_entropy": lambda x: Bernoulli(logits=x).entropy()})
    cases((p,), {"bernoulli_entropy_p": lambda p: Bernoulli(p).entropy()})
    # PyTorch broadcasts no divergences of Bernoulli distributions
    cases((x, other), {"bernoulli_kl": lambda x, y: kl_divergence(
        Bernoulli(logits=x.expand(3, 4)), Bernoulli(logits=y.expand(3, 4)))})
    cases((p, inside(4)), {"bernoulli_kl_p": lambda p, q: kl_divergence(Bernoulli(p), Bernoulli(q.expand(3, 4)))})


def main():
    begin(21)
    for declare in (declare_normal, declare_categorical, declare_bernoulli):
        declare()
    save("distributions", record_cases())


if __name__ == "__main__":
    main()
