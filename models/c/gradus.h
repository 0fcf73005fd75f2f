// The C interface: tensors, modules, optimisers and tokenizers as opaque handles, for C99 and for
// every language that calls C. gradus.py is a Python module on top of it.
//
// Functions that can fail return GRADUS_OK or an error code; gradus_last_error() then has the
// message, and what they would have written is unchanged. No C++ exception leaves them. A null
// handle or pointer is an error unless a comment allows it; the gradus_..._free functions ignore
// it. A handle must not be used after it is freed; what was made from it stays valid. Threads may
// use different handles at the same time, and in evaluation mode may run one module.
#ifndef GRADUS_MODELS_C_GRADUS_H
#define GRADUS_MODELS_C_GRADUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a function returns.
typedef enum gradus_status {
  GRADUS_OK = 0,         ///< no error
  GRADUS_INVALID = 1,    ///< an argument, a shape or a file is not as expected
  GRADUS_NO_MEMORY = 2,  ///< out of memory
  GRADUS_INTERNAL = 3    ///< anything else
} gradus_status;

/// Element types.
typedef enum gradus_dtype {
  GRADUS_FLOAT32 = 0,  ///< float
  GRADUS_FLOAT64 = 1,  ///< double
  GRADUS_INT64 = 2,    ///< int64_t
  GRADUS_BOOL = 3      ///< a byte, 0 or 1
} gradus_dtype;

/// The most axes that a tensor has.
#define GRADUS_MAX_RANK 8

/// Elements in memory.
typedef struct gradus_array {
  void* data;                        ///< the first element
  int32_t dtype;                     ///< a gradus_dtype
  int32_t rank;                      ///< number of axes
  int64_t shape[GRADUS_MAX_RANK];    ///< size of each axis
  int64_t strides[GRADUS_MAX_RANK];  ///< in elements
} gradus_array;

/// A tensor.
typedef struct gradus_tensor gradus_tensor;
/// A model or a stack of layers.
typedef struct gradus_module gradus_module;
/// An optimiser of a module's parameters.
typedef struct gradus_optimizer gradus_optimizer;
/// A tokenizer.
typedef struct gradus_tokenizer gradus_tokenizer;

// ---- library ----

/// The library's version, such as "0.1.0".
const char* gradus_version(void);
/// The message of the calling thread's last failed call, valid until its next; "" if none failed.
const char* gradus_last_error(void);
/// Sets the number of threads that ops use, 1 to 1024.
int gradus_set_threads(int n);
/// Seeds the calling thread's random numbers: initial weights, dropout.
int gradus_seed(uint64_t seed);
/// Sets whether ops on the calling thread record gradients, as at first. Returns what held before:
/// 1 or 0.
int gradus_grad_mode(int on);
/// Sets whether layers on the calling thread behave as in evaluation (dropout is off), which at
/// first they do not. Returns what held before: 1 or 0.
int gradus_eval_mode(int on);

// ---- tensors ----

/// Makes a tensor with a copy of the array's elements.
int gradus_tensor_copy(const gradus_array* array, gradus_tensor** out);
/// Makes a tensor over the array's memory, which it shares; strides must be >= 0, and elements must
/// not overlap. `release`, if not null, is called once with `context` when the last tensor and
/// recorded op have let go of the memory, on the thread that let go; it must not throw, and may
/// free handles. If this fails it is not called.
int gradus_tensor_share(const gradus_array* array, void (*release)(void* context), void* context,
                        gradus_tensor** out);
/// Frees the handle.
void gradus_tensor_free(gradus_tensor* tensor);
/// Describes the tensor's memory, which is valid while the handle is, and may be written.
int gradus_tensor_array(const gradus_tensor* tensor, gradus_array* out);
/// The value of a tensor of one element.
int gradus_tensor_item(const gradus_tensor* tensor, double* out);
/// The same elements in another shape; one size may be -1, which stands for the size that fits.
int gradus_tensor_reshape(const gradus_tensor* tensor, const int64_t* shape, int rank,
                          gradus_tensor** out);
/// Computes an op of `count` inputs, recording it for gradus_backward. Of two tensors, which
/// broadcast: add, sub, mul, div, matmul. Of one: neg, exp, log, sqrt, relu, gelu, silu, tanh,
/// sigmoid; softmax and log_softmax over the last axis; sum and mean of all elements, transpose of
/// the last two axes. Of logits (..., C) and targets int64 (...) or probabilities (..., C):
/// cross_entropy. Of two tensors of one shape: mse_loss. The losses are means.
int gradus_op(const char* name, const gradus_tensor* const* inputs, int count, gradus_tensor** out);
/// Sets whether gradients flow to a tensor that no recorded op computed.
int gradus_tensor_requires_grad(gradus_tensor* tensor, int on);
/// The gradient that gradus_backward has accumulated; null if there is none.
int gradus_tensor_grad(const gradus_tensor* tensor, gradus_tensor** out);
/// Accumulates the gradients of a loss of one element, and frees its graph.
int gradus_backward(const gradus_tensor* loss);

// ---- modules ----

/// Makes layers applied one after the other from their description, separated by commas: "linear
/// 784 256, relu, dropout 0.1, linear 256 10". A layer is a name, numbers and options NAME=NUMBER:
///
///     linear IN OUT [bias=1] [hidden=1]      embedding COUNT DIM        dropout P
///     conv2d IN OUT KERNEL [stride=1] [padding=0] [dilation=1] [groups=1] [bias=1] [hidden=1]
///     layer_norm DIM [eps=1e-5] [bias=1]     rms_norm DIM [eps=1e-6]    batch_norm CHANNELS
///     max_pool2d SIZE [stride=SIZE] [padding=0]    avg_pool2d SIZE [stride=SIZE] [padding=0]
///     relu  gelu  silu  tanh  sigmoid  flatten
///
/// hidden=0 marks a layer whose weight Muon leaves to AdamW: a model's first convolution or its
/// output. Parameters have the names and initial values of nn::Sequential.
int gradus_sequential(const char* layers, gradus_module** out);
/// Loads the model in a folder that gradus wrote, or a Hugging Face one: a GPT or a model of
/// Llama's family (ids (B, T) to logits (B, T, vocabulary)), or a ViT (images (N, C, H, W) to
/// logits).
int gradus_load(const char* folder, gradus_module** out);
/// Frees the handle.
void gradus_module_free(gradus_module* module);
/// Applies the module.
int gradus_module_run(const gradus_module* module, const gradus_tensor* x, gradus_tensor** out);
/// The number of parameter tensors.
int gradus_module_parameter_count(const gradus_module* module, int64_t* out);
/// A parameter, which shares its memory with the module's, and its name if `name` is not null. The
/// name is valid while the module is.
int gradus_module_parameter(const gradus_module* module, int64_t index, const char** name,
                            gradus_tensor** out);
/// Sets whether the parameters are trained, as at first.
int gradus_module_requires_grad(gradus_module* module, int on);
/// Clears the parameters' gradients.
int gradus_module_zero_grad(gradus_module* module);
/// Writes the weights to a safetensors file.
int gradus_module_save(const gradus_module* module, const char* path);
/// Reads the weights from a safetensors file, whose names and shapes must fit.
int gradus_module_load(gradus_module* module, const char* path);

// ---- training ----

/// Makes an optimiser of the module's parameters, whose state it keeps: a name and options, such as
/// "adamw lr=3e-4 weight_decay=0.1". Options left out have the defaults of gradus's C++ classes.
///
///     sgd [lr] [momentum] [nesterov] [weight_decay]     lion [lr] [beta1] [beta2] [weight_decay]
///     adam, adamw [lr] [beta1] [beta2] [eps] [weight_decay]
///     muon [lr] [momentum] [weight_decay] [adamw_lr]
///
/// muon updates the hidden layers' matrices, and AdamW the other parameters.
int gradus_optimizer_new(const gradus_module* module, const char* rule, gradus_optimizer** out);
/// Frees the handle.
void gradus_optimizer_free(gradus_optimizer* optimizer);
/// Updates the parameters by their gradients, first scaled down to a global norm of max_norm if
/// that is above 0.
int gradus_optimizer_step(gradus_optimizer* optimizer, double max_norm);
/// Clears the gradients.
int gradus_optimizer_zero_grad(gradus_optimizer* optimizer);
/// Sets the learning rate, from the next step on.
int gradus_optimizer_set_lr(gradus_optimizer* optimizer, double lr);

// ---- text ----

/// Loads a tokenizer from its file or from a model's folder.
int gradus_tokenizer_load(const char* path, gradus_tokenizer** out);
/// Frees the handle.
void gradus_tokenizer_free(gradus_tokenizer* tokenizer);
/// The number of tokens.
int gradus_tokenizer_size(const gradus_tokenizer* tokenizer, int64_t* out);
/// Writes the text's token ids, first those that begin every text, at most `capacity` of them, and
/// their number, which may be larger, to `count`. `ids` may be null if capacity is 0.
int gradus_tokenizer_encode(const gradus_tokenizer* tokenizer, const char* text, int64_t* ids,
                            int64_t capacity, int64_t* count);
/// Writes the text of `count` ids, at most `capacity` bytes of it without a terminating 0, and its
/// number of bytes, which may be larger, to `bytes`. `text` may be null if capacity is 0. A
/// character may take several tokens.
int gradus_tokenizer_decode(const gradus_tokenizer* tokenizer, const int64_t* ids, int64_t count,
                            char* text, int64_t capacity, int64_t* bytes);

/// How gradus_generate chooses tokens.
typedef struct gradus_generate_options {
  int64_t tokens;      ///< the most new tokens
  double temperature;  ///< divides the logits; 0: the most likely token
  int64_t top_k;       ///< only the top_k most likely tokens; 0: all
  double top_p;        ///< only the fewest most likely tokens with a total probability >= top_p
  uint64_t seed;       ///< of the draws
  int64_t vocab;       ///< only ids below this, such as the tokenizer's size; 0: all
  int64_t stop_token;  ///< ends the text and is not part of it; -1: none
} gradus_generate_options;
/// Sets all options: 100 tokens, temperature 1, all tokens, seed 0, no stop token.
int gradus_generate_defaults(gradus_generate_options* options);
/// Continues the prompt of `count` token ids, and calls on_token with each new one; if that returns
/// other than 0, the text ends there. on_token must not throw or jump away. `options` may be null:
/// the defaults. The module must be a loaded GPT.
int gradus_generate(const gradus_module* module, const int64_t* prompt, int64_t count,
                    const gradus_generate_options* options,
                    int (*on_token)(void* context, int64_t token), void* context);

#ifdef __cplusplus
}
#endif

#endif
