#include <gradus/models/c/gradus.h>
#include <stdio.h>
#include <stdlib.h>
static void ok(int status) { if (status != GRADUS_OK) exit((fprintf(stderr, "%s\n", gradus_last_error()), 1)); }
static int print_token(void* tokenizer, int64_t token) {
  char text[64];
  int64_t bytes;
  ok(gradus_tokenizer_decode(tokenizer, &token, 1, text, sizeof text, &bytes));
  return fwrite(text, 1, (size_t)bytes, stdout) != (size_t)bytes;
}
int main(int argc, char** argv) {
  float x[] = {0, 0, 0, 1, 1, 0, 1, 1}, y[] = {0, 1, 1, 0};
  double value;
  const gradus_array inputs = {x, GRADUS_FLOAT32, 2, {4, 2}, {2, 1}}, targets = {y, GRADUS_FLOAT32, 2, {4, 1}, {1, 1}};
  int64_t prompt[8], count;
  gradus_tensor *in, *pair[2], *loss;
  gradus_module *net, *gpt;
  gradus_optimizer* adam;
  gradus_tokenizer* text;
  ok(gradus_seed(1) || gradus_sequential("linear 2 16, tanh, linear 16 1", &net) || gradus_optimizer_new(net, "adamw lr=0.03", &adam));
  ok(gradus_tensor_share(&inputs, NULL, NULL, &in) || gradus_tensor_share(&targets, NULL, NULL, &pair[1]));
  for (int step = 0; step < 300; gradus_tensor_free(pair[0]), gradus_tensor_free(loss), ++step) {
    ok(gradus_module_run(net, in, &pair[0]) || gradus_op("mse_loss", (const gradus_tensor* const*)pair, 2, &loss));
    ok(gradus_optimizer_zero_grad(adam) || gradus_backward(loss) || gradus_optimizer_step(adam, 0) || gradus_tensor_item(loss, &value));
  }
  printf("XOR's loss %.6f\n", value);
  ok(gradus_load(argv[argc - 1], &gpt) || gradus_tokenizer_load(argv[argc - 1], &text));
  ok(gradus_tokenizer_encode(text, "int", prompt, 8, &count) || gradus_generate(gpt, prompt, count, NULL, print_token, text));
  return value < 1e-2 ? 0 : 1;
}
