// The C interface: what its functions return, the errors they report, and what they free.

#include "gradus/models/c/gradus.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "gradus/core/runtime/allocator.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "gradus/models/mae.h"
#include "tests/support/temporary_folder.h"

namespace gradus_test {

using namespace gradus;
using Catch::Contains;

namespace {

gradus_array described(void* data, int dtype, std::vector<int64_t> shape) {
  gradus_array a{};
  a.data = data;
  a.dtype = dtype;
  a.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    a.shape[i] = shape[i];
    a.strides[i] = stride;
  }
  return a;
}

gradus_tensor* shared(void* data, int dtype, const std::vector<int64_t>& shape) {
  const gradus_array a = described(data, dtype, shape);
  gradus_tensor* t = nullptr;
  REQUIRE(gradus_tensor_share(&a, nullptr, nullptr, &t) == GRADUS_OK);
  return t;
}

/// Checks that a call failed as invalid, with a message that contains `text`.
void check_refused(int status, const std::string& text) {
  CHECK(status == GRADUS_INVALID);
  CHECK_THAT(gradus_last_error(), Contains(text));
}

double item(gradus_tensor* t) {
  double value = 0;
  REQUIRE(gradus_tensor_item(t, &value) == GRADUS_OK);
  return value;
}

/// A folder of a small GPT and its tokenizer.
void save_gpt(const std::string& folder) {
  const models::CharTokenizer tokenizer("abcdef \n");
  const models::GPT gpt(
      {.vocab = tokenizer.vocab_size(), .context = 8, .layers = 1, .heads = 2, .dim = 8});
  models::save_model(folder, gpt, &tokenizer);
}

}  // namespace

TEST_CASE("C: tensors share and copy memory") {
  float memory[] = {1, 2, 3, 4, 5, 6};
  gradus_array a = described(memory, GRADUS_FLOAT32, {2, 3}), seen{};
  static int released;
  released = 0;
  gradus_tensor *t = nullptr, *copy = nullptr, *turned = nullptr, *y = nullptr;
  REQUIRE(gradus_tensor_copy(&a, &copy) == GRADUS_OK);
  REQUIRE(gradus_tensor_share(
              &a, [](void* n) { *static_cast<int*>(n) += 1; }, &released, &t) == GRADUS_OK);
  memory[0] = 10;
  REQUIRE(gradus_tensor_array(copy, &seen) == GRADUS_OK);
  CHECK(*static_cast<float*>(seen.data) == 1);
  REQUIRE(gradus_op("transpose", &t, 1, &turned) == GRADUS_OK);
  REQUIRE(gradus_tensor_array(turned, &seen) == GRADUS_OK);
  CHECK(seen.data == memory);
  CHECK(seen.dtype == GRADUS_FLOAT32);
  CHECK(seen.rank == 2);
  CHECK((seen.shape[0] == 3 && seen.shape[1] == 2 && seen.strides[0] == 1 && seen.strides[1] == 3));
  REQUIRE(gradus_op("sum", &turned, 1, &y) == GRADUS_OK);
  CHECK(item(y) == 30);
  gradus_tensor_free(y);
  gradus_tensor_free(t);
  CHECK(released == 0);
  gradus_tensor_free(turned);
  CHECK(released == 1);
  const int64_t shape[] = {3, -1};
  REQUIRE(gradus_tensor_reshape(copy, shape, 2, &y) == GRADUS_OK);
  REQUIRE(gradus_tensor_array(y, &seen) == GRADUS_OK);
  CHECK((seen.shape[0] == 3 && seen.shape[1] == 2));
  gradus_tensor_free(y);
  gradus_tensor_free(copy);
}

TEST_CASE("C: bad arguments are refused with a message, and nothing is written") {
  float memory[] = {1, 2, 3, 4};
  auto* const untouched = reinterpret_cast<gradus_tensor*>(memory);
  gradus_tensor* out = untouched;
  static bool released = false;
  gradus_array a = described(memory, GRADUS_FLOAT32, {4});
  auto share = [&](const gradus_array* array) {
    return gradus_tensor_share(
        array, [](void*) { released = true; }, nullptr, &out);
  };
  check_refused(share(nullptr), "gradus_tensor_share: expected a pointer, got null");
  check_refused(gradus_tensor_share(&a, nullptr, nullptr, nullptr), "got null");
  a.dtype = 4;
  check_refused(share(&a), "expected a gradus_dtype, got 4");
  a.dtype = -1;
  check_refused(gradus_tensor_copy(&a, &out),
                "gradus_tensor_copy: expected a gradus_dtype, got -1");
  a.dtype = GRADUS_FLOAT32;
  a.rank = 9;
  check_refused(share(&a), "expected a rank of 0 to 8, got 9");
  a.rank = -1;
  check_refused(share(&a), "expected a rank of 0 to 8, got -1");
  a.rank = 1;
  a.strides[0] = -1;
  check_refused(share(&a), "expected strides >= 0");
  a.strides[0] = 1;
  a.data = nullptr;
  check_refused(share(&a), "null data");
  CHECK_FALSE(released);

  gradus_tensor* const x = shared(memory, GRADUS_FLOAT32, {2, 2});
  gradus_tensor* const two[] = {x, nullptr};
  const int64_t shape[] = {3};
  check_refused(gradus_op("sinh", two, 1, &out), "gradus_op: expected one of add, sub");
  check_refused(gradus_op("add", two, 1, &out), "add: expected 2 inputs, got 1");
  check_refused(gradus_op("add", two, 2, &out), "add: expected a pointer, got null");
  check_refused(gradus_op(nullptr, two, 1, &out), "gradus_op: expected a pointer, got null");
  check_refused(gradus_tensor_reshape(x, shape, 1, &out), "reshape");
  check_refused(gradus_tensor_reshape(x, nullptr, 1, &out), "expected 1 sizes, got null");
  check_refused(gradus_tensor_reshape(x, shape, -1, &out), "expected a rank >= 0, got -1");
  check_refused(gradus_tensor_reshape(x, nullptr, -1, &out), "expected a rank >= 0, got -1");
  double value = 5;
  check_refused(gradus_tensor_item(x, &value), "item: expected one element, got shape (2, 2)");
  CHECK(value == 5);
  check_refused(gradus_backward(x), "");
  check_refused(gradus_backward(nullptr), "gradus_backward: expected a pointer, got null");
  check_refused(gradus_tensor_requires_grad(nullptr, 1), "got null");
  check_refused(gradus_tensor_grad(nullptr, &out), "got null");
  check_refused(gradus_tensor_array(x, nullptr), "got null");
  check_refused(gradus_set_threads(0), "threads");
  CHECK(out == untouched);
  gradus_tensor_free(x);
  gradus_tensor_free(nullptr);
  gradus_module_free(nullptr);
  gradus_optimizer_free(nullptr);
  gradus_tokenizer_free(nullptr);
}

TEST_CASE("C: each thread has its own last error and modes") {
  check_refused(gradus_set_threads(0), "threads");
  std::thread([] {
    CHECK(std::string(gradus_last_error()).empty());
    CHECK(gradus_grad_mode(0) == 1);
    CHECK(gradus_grad_mode(1) == 0);
    CHECK(gradus_eval_mode(1) == 0);
    CHECK(gradus_eval_mode(0) == 1);
  }).join();
  CHECK_THAT(gradus_last_error(), Contains("threads"));
}

TEST_CASE("C: gradients") {
  float memory[] = {3};
  gradus_tensor *x = shared(memory, GRADUS_FLOAT32, {1}), *grad = x, *y = nullptr, *none = nullptr;
  REQUIRE(gradus_tensor_requires_grad(x, 1) == GRADUS_OK);
  REQUIRE(gradus_tensor_grad(x, &grad) == GRADUS_OK);
  CHECK(grad == nullptr);
  const gradus_tensor* const both[] = {x, x};
  const int before = gradus_grad_mode(0);
  REQUIRE(gradus_op("mul", both, 2, &none) == GRADUS_OK);
  gradus_grad_mode(before);
  check_refused(gradus_backward(none), "");
  REQUIRE(gradus_op("mul", both, 2, &y) == GRADUS_OK);
  REQUIRE(gradus_backward(y) == GRADUS_OK);
  REQUIRE(gradus_tensor_grad(x, &grad) == GRADUS_OK);
  CHECK(item(grad) == 6);
  for (gradus_tensor* t : {x, grad, y, none}) gradus_tensor_free(t);
}

TEST_CASE("C: a Sequential is described, trained, saved and read, and leaves no memory behind") {
  const TemporaryFolder folder;
  const std::string path = folder / "weights.safetensors";
  const int64_t live = memory_stats().live;
  {
    float x[] = {0, 0, 0, 1, 1, 0, 1, 1}, y[] = {0, 1, 1, 0};
    gradus_module *net = nullptr, *other = nullptr;
    for (const char* rule :
         {"sgd lr=0.1 momentum=0.5 nesterov=1", "adam lr=0.01", "adamw lr=0.03 weight_decay=0",
          "lion lr=0.001", "muon lr=0.01 adamw_lr=0.01"}) {
      INFO(rule);
      gradus_module_free(net);
      REQUIRE(gradus_seed(1) == GRADUS_OK);
      REQUIRE(
          gradus_sequential(
              "linear 2 16, layer_norm 16 eps=1e-4, tanh, dropout 0.1, linear 16 1 bias=0 hidden=0",
              &net) == GRADUS_OK);
      gradus_optimizer* optimizer = nullptr;
      REQUIRE(gradus_optimizer_new(net, rule, &optimizer) == GRADUS_OK);
      gradus_tensor* const in = shared(x, GRADUS_FLOAT32, {4, 2});
      double first = 0, last = 0;
      for (int step = 0; step < 40; ++step) {
        gradus_tensor *pair[] = {nullptr, shared(y, GRADUS_FLOAT32, {4, 1})}, *loss = nullptr;
        REQUIRE(gradus_module_run(net, in, &pair[0]) == GRADUS_OK);
        REQUIRE(gradus_op("mse_loss", pair, 2, &loss) == GRADUS_OK);
        REQUIRE(gradus_optimizer_zero_grad(optimizer) == GRADUS_OK);
        REQUIRE(gradus_backward(loss) == GRADUS_OK);
        REQUIRE(gradus_optimizer_step(optimizer, step % 2 == 0 ? 0 : 1) == GRADUS_OK);
        last = item(loss);
        if (step == 0) first = last;
        for (gradus_tensor* t : {pair[0], pair[1], loss}) gradus_tensor_free(t);
      }
      CHECK(last < first);
      CHECK(gradus_optimizer_set_lr(optimizer, 0.5) == GRADUS_OK);
      check_refused(gradus_optimizer_step(optimizer, -1), "expected max_norm >= 0, got -1");
      gradus_optimizer_free(optimizer);
      gradus_tensor_free(in);
    }
    int64_t count = 0;
    REQUIRE(gradus_module_parameter_count(net, &count) == GRADUS_OK);
    CHECK(count == 5);
    const char* name = nullptr;
    gradus_tensor* weight = nullptr;
    REQUIRE(gradus_module_parameter(net, 4, &name, &weight) == GRADUS_OK);
    CHECK(std::string(name) == "4.weight");
    REQUIRE(gradus_module_save(net, path.c_str()) == GRADUS_OK);
    REQUIRE(gradus_sequential("linear 2 16,layer_norm 16,tanh,gelu,linear 16 1 bias=0", &other) ==
            GRADUS_OK);
    REQUIRE(gradus_module_load(other, path.c_str()) == GRADUS_OK);
    gradus_tensor* copied = nullptr;
    REQUIRE(gradus_module_parameter(other, 4, nullptr, &copied) == GRADUS_OK);
    gradus_array a{}, b{};
    REQUIRE((gradus_tensor_array(weight, &a) == GRADUS_OK &&
             gradus_tensor_array(copied, &b) == GRADUS_OK));
    CHECK(std::memcmp(a.data, b.data, 16 * sizeof(float)) == 0);
    check_refused(gradus_module_load(other, (folder / "missing").c_str()), "missing");
    check_refused(gradus_module_parameter(net, 5, nullptr, &copied),
                  "expected an index below 5, got 5");
    REQUIRE(gradus_module_zero_grad(net) == GRADUS_OK);
    REQUIRE(gradus_module_requires_grad(net, 0) == GRADUS_OK);
    gradus_tensor_free(weight);
    gradus_tensor_free(copied);
    gradus_module_free(net);
    gradus_module_free(other);
  }
  CHECK(memory_stats().live == live);
}

TEST_CASE("C: layers of images and of ids") {
  std::vector<float> image(2 * 3 * 8 * 8, 0.5F);
  int64_t ids[] = {0, 2};
  gradus_tensor* const pixels = shared(image.data(), GRADUS_FLOAT32, {2, 3, 8, 8});
  gradus_tensor* const tokens = shared(ids, GRADUS_INT64, {2});
  auto shape_of = [](const char* layers, gradus_tensor* x) {
    gradus_module* net = nullptr;
    gradus_tensor* y = nullptr;
    REQUIRE(gradus_sequential(layers, &net) == GRADUS_OK);
    REQUIRE(gradus_module_run(net, x, &y) == GRADUS_OK);
    gradus_array a{};
    REQUIRE(gradus_tensor_array(y, &a) == GRADUS_OK);
    gradus_tensor_free(y);
    gradus_module_free(net);
    return std::vector<int64_t>(a.shape, a.shape + a.rank);
  };
  using Sizes = std::vector<int64_t>;
  CHECK(shape_of("conv2d 3 4 3 padding=1 stride=2 bias=0 hidden=0, batch_norm 4, silu", pixels) ==
        Sizes{2, 4, 4, 4});
  CHECK(shape_of("conv2d 3 6 3 groups=3 dilation=2, sigmoid", pixels) == Sizes{2, 6, 4, 4});
  CHECK(shape_of("max_pool2d 2, avg_pool2d 2 stride=1, flatten", pixels) == Sizes{2, 27});
  CHECK(shape_of("max_pool2d 3 padding=1 stride=2", pixels) == Sizes{2, 3, 4, 4});
  CHECK(shape_of("embedding 3 4, rms_norm 4 eps=1e-3, relu", tokens) == Sizes{2, 4});
  gradus_tensor_free(pixels);
  gradus_tensor_free(tokens);
}

TEST_CASE("C: descriptions that are refused") {
  gradus_module *out = nullptr, *net = nullptr;
  auto refused = [&](const char* layers, const char* message) {
    check_refused(gradus_sequential(layers, &out), message);
  };
  refused(nullptr, "gradus_sequential: expected a pointer, got null");
  refused("", "expected layers, got \"\"");
  refused("relu,,relu", "expected a name");
  for (const char* layers : {"linear 2 3,", "linear 2 3, ", ","})
    refused(layers, "expected a name");
  refused("linear 2 3, lstm 3 4", "expected linear, embedding, conv2d");
  refused("linear 2", "linear: expected 2 numbers, got 1 in \"linear 2\"");
  refused("relu 3", "relu: expected 0 numbers, got 1");
  refused("linear 2 x", "expected a number, got \"x\" in \"linear 2 x\"");
  refused("linear 2 nan", "expected a number, got \"nan\"");
  refused("linear 2.5 3", "linear: expected an integer, got 2.5");
  refused("linear 2 3 bias=2", "expected bias=0 or 1, got 2");
  refused("linear 2 3 dropout=0.5", "unknown option or given twice: dropout");
  refused("linear 2 3 bias=1 bias=0", "unknown option or given twice: bias");
  refused("linear 0 3", "Linear");
  refused("dropout 1.5", "Dropout: expected a probability");
  CHECK(out == nullptr);
  REQUIRE(gradus_sequential("linear 2 3", &net) == GRADUS_OK);
  gradus_optimizer* optimizer = nullptr;
  check_refused(gradus_optimizer_new(net, "adagrad", &optimizer),
                "expected sgd, adam, adamw, lion or muon");
  check_refused(gradus_optimizer_new(net, "sgd 0.1", &optimizer), "sgd: expected 0 numbers, got 1");
  check_refused(gradus_optimizer_new(net, "sgd beta1=0.1", &optimizer),
                "unknown option or given twice: beta1");
  check_refused(gradus_optimizer_new(net, "adamw lr=-1", &optimizer), "AdamW");
  check_refused(gradus_optimizer_new(nullptr, "sgd", &optimizer), "got null");
  CHECK(optimizer == nullptr);
  float memory[] = {1, 2, 3};
  gradus_tensor *x = shared(memory, GRADUS_FLOAT32, {3}), *y = nullptr;
  check_refused(gradus_module_run(net, x, &y), "linear");
  int64_t token = 0;
  check_refused(gradus_generate(
                    net, &token, 1, nullptr, [](void*, int64_t) { return 0; }, nullptr),
                "gradus_generate: expected a loaded language model");
  gradus_tensor_free(x);
  gradus_module_free(net);
}

TEST_CASE("C: a folder is loaded, continued and run") {
  const TemporaryFolder folder;
  const int64_t live = memory_stats().live;
  save_gpt(folder.path.string());
  gradus_module* gpt = nullptr;
  gradus_tokenizer* tokenizer = nullptr;
  REQUIRE(gradus_load(folder.path.c_str(), &gpt) == GRADUS_OK);
  REQUIRE(gradus_tokenizer_load(folder.path.c_str(), &tokenizer) == GRADUS_OK);
  int64_t size = 0, count = 0, ids[8] = {}, bytes = 0;
  REQUIRE(gradus_tokenizer_size(tokenizer, &size) == GRADUS_OK);
  CHECK(size == 8);
  REQUIRE(gradus_tokenizer_encode(tokenizer, "bad", nullptr, 0, &count) == GRADUS_OK);
  CHECK(count == 3);
  ids[2] = -7;
  REQUIRE(gradus_tokenizer_encode(tokenizer, "bad", ids, 2, &count) == GRADUS_OK);
  CHECK((count == 3 && ids[2] == -7));
  REQUIRE(gradus_tokenizer_encode(tokenizer, "bad", ids, 8, &count) == GRADUS_OK);
  char text[4] = "...";
  REQUIRE(gradus_tokenizer_decode(tokenizer, ids, 3, text, 3, &bytes) == GRADUS_OK);
  CHECK((bytes == 3 && std::string(text) == "bad"));
  check_refused(gradus_tokenizer_encode(tokenizer, "bad", nullptr, 8, &count),
                "expected room for 8 elements");
  check_refused(gradus_tokenizer_encode(tokenizer, "bad", ids, -1, &count), "negative capacity");
  check_refused(gradus_tokenizer_encode(tokenizer, "z", ids, 8, &count), "z");
  check_refused(gradus_tokenizer_decode(tokenizer, nullptr, 1, text, 3, &bytes), "expected 1 ids");

  std::vector<int64_t> tokens;
  auto take = [](void* all, int64_t token) {
    auto& list = *static_cast<std::vector<int64_t>*>(all);
    list.push_back(token);
    return list.size() == 12 ? 1 : 0;
  };
  gradus_generate_options options;
  REQUIRE(gradus_generate_defaults(&options) == GRADUS_OK);
  options.tokens = 5;
  REQUIRE(gradus_generate(gpt, ids, 3, &options, take, &tokens) == GRADUS_OK);
  CHECK(tokens.size() == 5);
  tokens.clear();
  REQUIRE(gradus_generate(gpt, ids, 3, nullptr, take, &tokens) == GRADUS_OK);  // take ends it
  CHECK(tokens.size() == 12);
  auto model = models::load_model<models::GPT>(folder.path.string());
  {
    const NoGrad no_grad;
    models::GenerateOptions same{.tokens = 12};
    CHECK(tokens == models::generate(model, {ids, ids + 3}, same));
  }
  check_refused(gradus_generate(gpt, ids, 3, nullptr, nullptr, nullptr),
                "expected on_token, got null");
  check_refused(gradus_generate(gpt, nullptr, 3, nullptr, take, &tokens), "expected 3 ids");
  check_refused(gradus_generate(gpt, ids, 0, nullptr, take, &tokens), "generate");
  options.top_p = 2;
  check_refused(gradus_generate(gpt, ids, 3, &options, take, &tokens), "top_p");

  gradus_tensor *x = shared(ids, GRADUS_INT64, {1, 3}), *logits = nullptr;
  REQUIRE(gradus_module_run(gpt, x, &logits) == GRADUS_OK);
  gradus_array a{};
  REQUIRE(gradus_tensor_array(logits, &a) == GRADUS_OK);
  CHECK((a.rank == 3 && a.shape[1] == 3 && a.shape[2] == 8));
  gradus_tensor_free(logits);
  gradus_tensor_free(x);
  gradus_module_free(gpt);
  gradus_tokenizer_free(tokenizer);
  (void)live;
}

TEST_CASE("C: folders that are refused") {
  const TemporaryFolder folder;
  gradus_module* out = nullptr;
  gradus_tokenizer* tokenizer = nullptr;
  check_refused(gradus_load(nullptr, &out), "got null");
  check_refused(gradus_load((folder / "none").c_str(), &out), "none");
  check_refused(gradus_tokenizer_load((folder / "none").c_str(), &tokenizer), "none");
  models::save_model(folder.path.string(), models::MAE({}));
  check_refused(gradus_load(folder.path.c_str(), &out),
                "expected a model of kind gpt or vit, got mae");
  CHECK((out == nullptr && tokenizer == nullptr));
}

}  // namespace gradus_test
