// A custom layer, stacked: residual blocks of LayerNorm, Linear, GELU, Linear, Dropout and a
// learnable scale, trained on a function of eight variables, saved, loaded and partly fine-tuned.

#include <gradus/gradus.h>

#include <cstdio>
#include <string>
#include <vector>

#include "examples/support/cli.h"
#include "examples/support/folder.h"

using namespace gradus;

struct Block : nn::Module {
  nn::LayerNorm norm;
  nn::Linear up, down;
  nn::Dropout dropout;
  const Tensor scale;  // multiplies the residual branch: (dim)

  Block(int64_t dim, double p)
      : norm(child("norm", nn::LayerNorm(dim))),
        up(child("up", nn::Linear(dim, 4 * dim))),
        down(child("down", nn::Linear(4 * dim, dim))),
        dropout(p),
        scale(param("scale", {dim}, 0.1)) {}
  Tensor operator()(const Tensor& x) const { return x + scale * dropout(down(gelu(up(norm(x))))); }
};

struct Model : nn::Module {
  nn::Linear in;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear out;

  Model(int64_t inputs, int64_t dim, int64_t depth, double p)
      : in(child("in", nn::Linear(inputs, dim))),
        blocks(children("blocks", depth, [&](int64_t) { return Block(dim, p); })),
        norm(child("norm", nn::LayerNorm(dim))),
        out(child("out", nn::Linear(dim, 1))) {}
  Tensor operator()(const Tensor& x) const {
    Tensor h = in(x);
    for (const Block& block : blocks) h = block(h);
    return out(norm(h));
  }
};

Tensor target(const Tensor& x) {  // (n, 8) -> (n, 1)
  const auto c = unbind(x, 1);
  return (sin(2 * c[0]) + c[1] * c[2] + (c[3] > c[4]).to(float32) - abs(c[5])).unsqueeze(1);
}

double evaluate(const Model& model, const Tensor& x, const Tensor& y) {
  const NoGrad no_grad;
  const EvalMode eval;
  return mse_loss(model(x), y).item();
}

void train(Model& model, const Tensor& x, const Tensor& y, int64_t steps, double lr) {
  optim::AdamW optimizer(optim::decay_groups(model.parameters()), {.weight_decay = 0.01});
  const models::Batches batches({x, y}, {.size = 128});
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.set_lr(optim::schedule::cosine(step, {.lr = lr, .warmup = 50, .steps = steps}));
    const auto [bx, by] = batches.at(step);
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(bx), by);
    loss.backward();
    const double norm = optimizer.step({.max_grad_norm = 1});
    if (step % 250 == 0)
      std::printf("  step %4lld   loss %.4f   gradient norm %.2f   lr %.5f\n",
                  static_cast<long long>(step), loss.item(), norm, optimizer.lr());
  }
}

int run(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "out/blocks.safetensors";
  if (path.starts_with('-')) {
    std::puts("usage: own_layer [FILE.safetensors]");
    return path == "--help" ? 0 : 1;
  }
  manual_seed(0);
  const Tensor x = randn({4096, 8}), y = target(x);
  const Tensor test_x = randn({1024, 8}), test_y = target(test_x);

  Model model(8, 32, 3, 0.05);
  for (const auto& [name, p] : model.named_parameters())
    std::printf("%-22s %6lld\n", name.c_str(), static_cast<long long>(p.numel()));
  std::printf("%-22s %6lld\n\n", "total", static_cast<long long>(model.num_parameters()));

  make_folder_of(path);
  save_safetensors(path, model.state_dict());  // a failure to write shows before the training
  std::printf("training; initial test loss %.4f\n", evaluate(model, test_x, test_y));
  train(model, x, y, 1500, 3e-3);
  std::printf("test loss %.4f\n\n", evaluate(model, test_x, test_y));

  save_safetensors(path, model.state_dict());
  Model loaded(8, 32, 3, 0.05);
  loaded.load_state_dict(load_safetensors(path).tensors);
  std::printf("saved and loaded: test loss %.4f\n\n", evaluate(loaded, test_x, test_y));

  // Fine-tune on another target with all but the last layers frozen.
  for (const Tensor& p : loaded.parameters()) p.requires_grad_(false);
  for (const Tensor& p : loaded.norm.parameters()) p.requires_grad_();
  for (const Tensor& p : loaded.out.parameters()) p.requires_grad_();
  const Tensor before = loaded.blocks[0].up.weight.clone(), head = loaded.out.weight.clone();
  std::printf("fine-tuning; initial test loss %.4f\n", evaluate(loaded, test_x, 2 - test_y));
  train(loaded, x, 2 - y, 500, 1e-2);
  std::printf("test loss %.4f; changed: a block %s, the head %s\n",
              evaluate(loaded, test_x, 2 - test_y),
              any(loaded.blocks[0].up.weight != before).item<bool>() ? "yes" : "no",
              any(loaded.out.weight != head).item<bool>() ? "yes" : "no");
  std::printf("test loss of the first model is still %.4f\n", evaluate(model, test_x, test_y));
  return 0;
}

int main(int argc, char** argv) { return run_program("own_layer", argc, argv, run); }
