// The C interface's modules, optimisers, tokenizers and generation.

#include <cstring>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/c/handles.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"

namespace gradus::models::internal {

namespace {

template <class M>
gradus_module load(const char* folder) {
  const auto module = std::make_shared<M>(load_model<M>(folder));
  gradus_module handle{
      module, [module](const Tensor& x) { return (*module)(x); }, {}, module->named_parameters()};
  if constexpr (std::same_as<M, GPT>)
    handle.generate = [module](const std::vector<int64_t>& prompt, const GenerateOptions& options) {
      const NoGrad no_grad;
      const EvalMode eval;
      models::generate(*module, prompt, options);
    };
  return handle;
}

gradus_module load_any(const char* folder) {
  const std::string kind = model_kind(folder);
  if (kind == GPT::kind) return load<GPT>(folder);
  if (kind == ViT::kind) return load<ViT>(folder);
  core::fail("gradus_load: ", folder, ": expected a model of kind ", GPT::kind, " or ", ViT::kind,
             ", got ", kind);
}

/// Copies at most `capacity` elements of `values` to `to`, and writes values.size() to `count`.
template <class Values, class T>
void give(const char* op, const Values& values, T* to, int64_t capacity, int64_t* count) {
  core::check(capacity == 0 || (capacity > 0 && to), op, ": expected room for ", capacity,
              " elements, got null or a negative capacity");
  const size_t n = std::min(values.size(), static_cast<size_t>(capacity));
  if (n > 0) std::memcpy(to, values.data(), n * sizeof(T));
  *count = std::ssize(values);
}

std::vector<int64_t> to_ids(const char* op, const int64_t* ids, int64_t count) {
  core::check(count == 0 || (count > 0 && ids), op, ": expected ", count,
              " ids, got null or a negative count");
  return count > 0 ? std::vector<int64_t>(ids, ids + count) : std::vector<int64_t>();
}

GenerateOptions options_of(const gradus_generate_options& given) {
  core::check(given.tokens >= 0, "gradus_generate: expected tokens >= 0, got ", given.tokens);
  return {
      .tokens = given.tokens,
      .sampling = {.temperature = given.temperature, .top_k = given.top_k, .top_p = given.top_p},
      .seed = given.seed,
      .vocab = given.vocab,
      .stop_token = given.stop_token};
}

constexpr gradus_generate_options default_options{100, 1, 0, 1, 0, 0, -1};

}  // namespace

}  // namespace gradus::models::internal

using namespace gradus;
using namespace gradus::models::internal;

// ---- modules ----

int gradus_sequential(const char* layers, gradus_module** out) {
  return guarded([&] {
    check_given("gradus_sequential", layers, out);
    *out = new gradus_module(make_sequential(layers));
  });
}

int gradus_load(const char* folder, gradus_module** out) {
  return guarded([&] {
    check_given("gradus_load", folder, out);
    *out = new gradus_module(load_any(folder));
  });
}

void gradus_module_free(gradus_module* module) { delete module; }

int gradus_module_run(const gradus_module* module, const gradus_tensor* x, gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_module_run", module, x, out);
    hand_out(module->run(x->value), out);
  });
}

int gradus_module_parameter_count(const gradus_module* module, int64_t* out) {
  return guarded([&] {
    check_given("gradus_module_parameter_count", module, out);
    *out = std::ssize(module->parameters);
  });
}

int gradus_module_parameter(const gradus_module* module, int64_t index, const char** name,
                            gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_module_parameter", module, out);
    core::check(index >= 0 && index < std::ssize(module->parameters),
                "gradus_module_parameter: expected an index below ", module->parameters.size(),
                ", got ", index);
    const auto& [parameter_name, tensor] = module->parameters[static_cast<size_t>(index)];
    hand_out(tensor, out);
    if (name) *name = parameter_name.c_str();
  });
}

int gradus_module_requires_grad(gradus_module* module, int on) {
  return guarded([&] {
    check_given("gradus_module_requires_grad", module);
    module->module->requires_grad_(on != 0);
  });
}

int gradus_module_zero_grad(gradus_module* module) {
  return guarded([&] {
    check_given("gradus_module_zero_grad", module);
    module->module->zero_grad();
  });
}

int gradus_module_save(const gradus_module* module, const char* path) {
  return guarded([&] {
    check_given("gradus_module_save", module, path);
    save_safetensors(path, module->module->state_dict());
  });
}

int gradus_module_load(gradus_module* module, const char* path) {
  return guarded([&] {
    check_given("gradus_module_load", module, path);
    module->module->load_state_dict(load_safetensors(path).tensors);
  });
}

// ---- training ----

int gradus_optimizer_new(const gradus_module* module, const char* rule, gradus_optimizer** out) {
  return guarded([&] {
    check_given("gradus_optimizer_new", module, rule, out);
    *out = new gradus_optimizer{make_optimizer(*module->module, rule)};
  });
}

void gradus_optimizer_free(gradus_optimizer* optimizer) { delete optimizer; }

int gradus_optimizer_step(gradus_optimizer* optimizer, double max_norm) {
  return guarded([&] {
    check_given("gradus_optimizer_step", optimizer);
    core::check(max_norm >= 0, "gradus_optimizer_step: expected max_norm >= 0, got ", max_norm);
    if (max_norm > 0)
      optimizer->value->step({.max_grad_norm = max_norm});
    else
      optimizer->value->step();
  });
}

int gradus_optimizer_zero_grad(gradus_optimizer* optimizer) {
  return guarded([&] {
    check_given("gradus_optimizer_zero_grad", optimizer);
    optimizer->value->zero_grad();
  });
}

int gradus_optimizer_set_lr(gradus_optimizer* optimizer, double lr) {
  return guarded([&] {
    check_given("gradus_optimizer_set_lr", optimizer);
    optimizer->value->set_lr(lr);
  });
}

// ---- text ----

int gradus_tokenizer_load(const char* path, gradus_tokenizer** out) {
  return guarded([&] {
    check_given("gradus_tokenizer_load", path, out);
    *out = new gradus_tokenizer{models::load_tokenizer(path)};
  });
}

void gradus_tokenizer_free(gradus_tokenizer* tokenizer) { delete tokenizer; }

int gradus_tokenizer_size(const gradus_tokenizer* tokenizer, int64_t* out) {
  return guarded([&] {
    check_given("gradus_tokenizer_size", tokenizer, out);
    *out = tokenizer->value->vocab_size();
  });
}

int gradus_tokenizer_encode(const gradus_tokenizer* tokenizer, const char* text, int64_t* ids,
                            int64_t capacity, int64_t* count) {
  return guarded([&] {
    check_given("gradus_tokenizer_encode", tokenizer, text, count);
    std::vector<int64_t> all = tokenizer->value->begin_ids();
    const std::vector<int64_t> encoded = tokenizer->value->encode(text);
    all.insert(all.end(), encoded.begin(), encoded.end());
    give("gradus_tokenizer_encode", all, ids, capacity, count);
  });
}

int gradus_tokenizer_decode(const gradus_tokenizer* tokenizer, const int64_t* ids, int64_t count,
                            char* text, int64_t capacity, int64_t* bytes) {
  return guarded([&] {
    check_given("gradus_tokenizer_decode", tokenizer, bytes);
    give("gradus_tokenizer_decode",
         tokenizer->value->decode(to_ids("gradus_tokenizer_decode", ids, count)), text, capacity,
         bytes);
  });
}

int gradus_generate_defaults(gradus_generate_options* options) {
  return guarded([&] {
    check_given("gradus_generate_defaults", options);
    *options = default_options;
  });
}

int gradus_generate(const gradus_module* module, const int64_t* prompt, int64_t count,
                    const gradus_generate_options* options,
                    int (*on_token)(void* context, int64_t token), void* context) {
  return guarded([&] {
    check_given("gradus_generate", module);
    core::check(on_token != nullptr, "gradus_generate: expected on_token, got null");
    core::check(module->generate != nullptr, "gradus_generate: expected a loaded language model");
    models::GenerateOptions chosen = options_of(options ? *options : default_options);
    bool stopped = false;
    chosen.on_token = [&](int64_t token) { stopped = on_token(context, token) != 0; };
    chosen.stop_if = [&] { return stopped; };
    module->generate(to_ids("gradus_generate", prompt, count), chosen);
  });
}
