"""Trains XOR, and a loaded GPT on a text, whose ids and weights it shares with NumPy; then the GPT writes."""
import sys

import gradus
import numpy

x = numpy.array([[0, 0], [0, 1], [1, 0], [1, 1]], numpy.float32)
y = numpy.array([[0], [1], [1], [0]], numpy.float32)
gradus.seed(1)
net = gradus.Sequential("linear 2 16, tanh, linear 16 1")
optimizer = gradus.Optimizer(net, "adamw lr=0.03")
for step in range(300):
    loss = gradus.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"XOR's loss {loss.item():.6f}")

model, tokenizer = gradus.load(sys.argv[1]), gradus.Tokenizer(sys.argv[1])
ids = numpy.array(tokenizer.encode("int main() {\n  return 0;\n}\n"))[None]
optimizer, losses = gradus.Optimizer(model, "adamw lr=1e-3"), []
for step in range(20):
    loss = gradus.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(max_norm=1)
    losses.append(loss.item())
print(f"GPT's loss {losses[0]:.3f}, then {losses[-1]:.3f}")
model.generate(tokenizer.encode("int"), lambda i: print(tokenizer.decode([i]), end="", flush=True), temperature=0)
assert losses[-1] < losses[0] / 2
