// The C interface's modules and optimisers by worked examples, and its models against C++.

#include <catch2/catch.hpp>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/models/c/handles.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace c_module_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

/// y = w x for x = (3, 4): the gradient of y is (3, 4), and its norm 5. w starts at 0.
struct Line {
  gradus_module* net = nullptr;
  gradus_tensor* weight = nullptr;
  gradus_optimizer* optimizer = nullptr;
  explicit Line(const char* rule) {
    REQUIRE(gradus_sequential("linear 2 1 bias=0", &net) == GRADUS_OK);
    const char* name = nullptr;
    REQUIRE(gradus_module_parameter(net, 0, &name, &weight) == GRADUS_OK);
    CHECK(std::string(name) == "0.weight");
    REQUIRE(gradus_optimizer_new(net, rule, &optimizer) == GRADUS_OK);
    const NoGrad no_grad;
    weight->value.zero_();
  }
  ~Line() {
    gradus_tensor_free(weight);
    gradus_optimizer_free(optimizer);
    gradus_module_free(net);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// The status of gradus_backward(y).
  int backward() const {
    const gradus_tensor x{tensor({{3.0, 4.0}})};
    gradus_tensor* y = nullptr;
    REQUIRE(gradus_module_run(net, &x, &y) == GRADUS_OK);
    const int status = gradus_backward(y);
    gradus_tensor_free(y);
    return status;
  }
  Values gradient() const {
    gradus_tensor* grad = nullptr;
    REQUIRE(gradus_tensor_grad(weight, &grad) == GRADUS_OK);
    const Values numbers = grad ? values(grad->value) : Values{};
    gradus_tensor_free(grad);
    return numbers;
  }
};

/// A GPT with tokens that differ much in probability, and its folder.
models::GPT save_gpt(const std::string& folder) {
  manual_seed(4);
  const models::CharTokenizer tokenizer("abcdef \n");
  models::GPT gpt(
      {.vocab = tokenizer.vocab_size(), .context = 8, .layers = 1, .heads = 2, .dim = 8});
  const NoGrad no_grad;
  for (const Tensor& p : gpt.parameters()) p.mul_(4);
  models::save_model(folder, gpt, &tokenizer);
  return gpt;
}

int append(void* all, int64_t token) {
  static_cast<std::vector<int64_t>*>(all)->push_back(token);
  return 0;
}

}  // namespace

TEST_CASE("C: an optimiser's steps, by hand") {
  const Line line("sgd lr=0.5");
  REQUIRE(line.backward() == GRADUS_OK);
  REQUIRE(gradus_optimizer_step(line.optimizer, 0) == GRADUS_OK);  // the gradients as they are
  CHECK(difference(line.weight->value.detach(), {-1.5, -2}) < 1e-6);
  REQUIRE(gradus_optimizer_step(line.optimizer, 1) == GRADUS_OK);  // by (0.6, 0.8)
  CHECK(difference(line.weight->value.detach(), {-1.8, -2.4}) < 1e-6);
  REQUIRE(gradus_optimizer_set_lr(line.optimizer, 2) == GRADUS_OK);
  REQUIRE(gradus_optimizer_zero_grad(line.optimizer) == GRADUS_OK);
  REQUIRE(line.backward() == GRADUS_OK);
  CHECK(line.gradient() == Values{3, 4});
  REQUIRE(gradus_optimizer_step(line.optimizer, 10) == GRADUS_OK);  // the norm is smaller
  CHECK(difference(line.weight->value.detach(), {-7.8, -10.4}) < 1e-6);
}

TEST_CASE("C: a module's gradients add up until they are cleared, and can be turned off") {
  const Line line("sgd");
  REQUIRE(line.backward() == GRADUS_OK);
  REQUIRE(line.backward() == GRADUS_OK);
  CHECK(line.gradient() == Values{6, 8});
  REQUIRE(gradus_module_zero_grad(line.net) == GRADUS_OK);
  REQUIRE(line.backward() == GRADUS_OK);
  CHECK(line.gradient() == Values{3, 4});
  REQUIRE(gradus_module_requires_grad(line.net, 0) == GRADUS_OK);
  CHECK(line.backward() == GRADUS_INVALID);
  REQUIRE(gradus_module_requires_grad(line.net, 1) == GRADUS_OK);
  CHECK(line.backward() == GRADUS_OK);
  gradus_tensor* none = nullptr;
  for (const int64_t index : {-1, 1})
    CHECK(gradus_module_parameter(line.net, index, nullptr, &none) == GRADUS_INVALID);
  CHECK(none == nullptr);
}

TEST_CASE("C: a loaded ViT computes the logits of images, and continues no text") {
  const TemporaryFolder folder;
  const models::ViT vit({.image = 4, .channels = 1, .patch = 2, .layers = 1, .heads = 2, .dim = 8});
  models::save_model(folder.path.string(), vit);
  gradus_module* module = nullptr;
  REQUIRE(gradus_load(folder.path.c_str(), &module) == GRADUS_OK);
  const gradus_tensor images{randn({3, 1, 4, 4})};
  gradus_tensor* logits = nullptr;
  REQUIRE(gradus_module_run(module, &images, &logits) == GRADUS_OK);
  CHECK(golden::same(logits->value.detach(), vit(images.value).detach()));
  CHECK(logits->value.requires_grad());  // parameters are trained unless the caller says otherwise
  const int64_t prompt = 0;
  CHECK(gradus_generate(module, &prompt, 1, nullptr, append, nullptr) == GRADUS_INVALID);
  CHECK_THAT(gradus_last_error(), Contains("expected a loaded language model"));
  gradus_tensor_free(logits);
  gradus_module_free(module);
}

TEST_CASE("C: each option of generation is that of C++") {
  const TemporaryFolder folder;
  const models::GPT gpt = save_gpt(folder.path.string());
  gradus_module* module = nullptr;
  REQUIRE(gradus_load(folder.path.c_str(), &module) == GRADUS_OK);
  const std::vector<int64_t> prompt{1, 5, 2};
  gradus_generate_options defaults;
  REQUIRE(gradus_generate_defaults(&defaults) == GRADUS_OK);
  const auto text = [&](const gradus_generate_options* options) {
    std::vector<int64_t> tokens;
    REQUIRE(gradus_generate(module, prompt.data(), 3, options, append, &tokens) == GRADUS_OK);
    return tokens;
  };
  const std::vector<int64_t> plain = text(&defaults);
  CHECK(plain.size() == 100);
  CHECK(text(nullptr) == plain);
  const auto check = [&](const gradus_generate_options& c, const models::GenerateOptions& options) {
    const std::vector<int64_t> tokens = text(&c);
    CHECK(tokens == models::generate(gpt, prompt, options));
    CHECK(tokens != plain);
  };
  gradus_generate_options c = defaults;
  c.tokens = 0;
  check(c, {.tokens = 0});
  c = defaults, c.temperature = 0.5;
  check(c, {.sampling = {.temperature = 0.5}});
  c = defaults, c.top_k = 2;
  check(c, {.sampling = {.top_k = 2}});
  c = defaults, c.top_p = 0.5;
  check(c, {.sampling = {.top_p = 0.5}});
  c = defaults, c.seed = 9;
  check(c, {.seed = 9});
  c = defaults, c.vocab = 3;
  check(c, {.vocab = 3});
  c = defaults, c.stop_token = plain[5];
  check(c, {.stop_token = plain[5]});

  std::vector<int64_t> tokens;
  c = defaults, c.tokens = -1;
  CHECK(gradus_generate(module, prompt.data(), 3, &c, append, &tokens) == GRADUS_INVALID);
  CHECK_THAT(gradus_last_error(), Contains("gradus_generate: expected tokens >= 0, got -1"));
  CHECK(gradus_generate(module, prompt.data(), -1, nullptr, append, &tokens) == GRADUS_INVALID);
  CHECK_THAT(gradus_last_error(), Contains("expected -1 ids, got null or a negative count"));
  CHECK(tokens.empty());
  gradus_module_free(module);
}

TEST_CASE("C: the special tokens before every text come first") {
  const std::string folder = source_path("tests/golden/hugging_face/llama2");
  const auto expected = models::load_tokenizer(folder);
  REQUIRE(expected->begin_ids().size() == 1);
  gradus_tokenizer* tokenizer = nullptr;
  REQUIRE(gradus_tokenizer_load(folder.c_str(), &tokenizer) == GRADUS_OK);
  int64_t ids[9] = {}, count = 0;
  REQUIRE(gradus_tokenizer_encode(tokenizer, "int", ids, 9, &count) == GRADUS_OK);
  CHECK(ids[0] == expected->begin_ids()[0]);
  CHECK(std::vector<int64_t>(ids + 1, ids + count) == expected->encode("int"));
  gradus_tokenizer_free(tokenizer);
}

TEST_CASE("C: no ids are no text") {
  const TemporaryFolder folder;
  save_gpt(folder.path.string());
  gradus_tokenizer* tokenizer = nullptr;
  REQUIRE(gradus_tokenizer_load(folder.path.c_str(), &tokenizer) == GRADUS_OK);
  int64_t size = -5;
  CHECK(gradus_tokenizer_decode(tokenizer, nullptr, 0, nullptr, 0, &size) == GRADUS_OK);
  CHECK(size == 0);
  size = -5;
  CHECK(gradus_tokenizer_encode(tokenizer, "", nullptr, 0, &size) == GRADUS_OK);
  CHECK(size == 0);
  gradus_tokenizer_free(tokenizer);
}

}  // namespace c_module_test
