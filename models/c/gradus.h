// The C interface: tensors, modules, optimisers and tokenizers as opaque handles, for C99 and for
// every language that can call C. gradus.py is a Python module that uses it.
//
// Functions that can fail return GRADUS_OK or an error code. After an error, gradus_last_error()
// returns the message, and no output is written. No function throws a C++ exception. A null handle
// or pointer is an error. Null is allowed for `context`, for an array of 0 elements, as the
// argument of a gradus_..._free function, and where a comment says so. The caller frees each handle
// that a function returns in *out. A handle must not be used after it is freed, but objects made
// from it stay valid. Threads may use different handles at the same time. Several threads may run
// one module at the same time in evaluation mode.
#ifndef GRADUS_MODELS_C_GRADUS_H
#define GRADUS_MODELS_C_GRADUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The status that functions return.
typedef enum gradus_status {
  GRADUS_OK = 0,         ///< no error
  GRADUS_INVALID = 1,    ///< an argument, a shape or a file is not as expected
  GRADUS_NO_MEMORY = 2,  ///< out of memory
  GRADUS_INTERNAL = 3    ///< any other error
} gradus_status;

/// Element types.
typedef enum gradus_dtype {
  GRADUS_FLOAT32 = 0,  ///< float
  GRADUS_FLOAT64 = 1,  ///< double
  GRADUS_INT64 = 2,    ///< int64_t
  GRADUS_BOOL = 3      ///< a byte, 0 or 1
} gradus_dtype;

/// The maximum number of axes of a tensor.
#define GRADUS_MAX_RANK 8

/// Describes the elements of a tensor in memory.
typedef struct gradus_array {
  void* data;                        ///< address of the first element
  int32_t dtype;                     ///< a gradus_dtype
  int32_t rank;                      ///< number of axes
  int64_t shape[GRADUS_MAX_RANK];    ///< size of each axis
  int64_t strides[GRADUS_MAX_RANK];  ///< stride of each axis, in elements
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

/// Returns the library's version, for example "0.1.0".
const char* gradus_version(void);
/// Returns the error message of the last call that failed on the calling thread, or "" if no call
/// has failed. The text is valid until the next call that fails on this thread.
const char* gradus_last_error(void);
/// Sets the number of threads that ops use in this process. `n` must be from 1 to 1024.
int gradus_set_threads(int n);
/// Seeds the calling thread's random number generator, which draws initial weights and dropout.
int gradus_seed(uint64_t seed);
/// Sets whether ops on the calling thread are recorded for gradus_backward. The initial value is 1.
/// Returns the previous value, 1 or 0.
int gradus_grad_mode(int on);
/// Sets whether layers on the calling thread are in evaluation mode: dropout is off, and batch_norm
/// uses its running statistics. The initial value is 0. Returns the previous value, 1 or 0.
int gradus_eval_mode(int on);

// ---- tensors ----

/// Makes a tensor with a copy of the array's elements. The conditions on the array's strides and
/// alignment are those of gradus_tensor_share.
int gradus_tensor_copy(const gradus_array* array, gradus_tensor** out);
/// Makes a tensor that shares the array's memory. Strides must be >= 0. Axes must not overlap or
/// interleave in memory, except axes of stride 0. `data` must be aligned to the size of an element.
/// If `release` is not null, the library calls release(context) once, when the last tensor or
/// recorded op that uses the memory is freed. The call runs on the thread that frees this tensor or
/// op. `release` must not throw, but may free handles. If this function fails, `release` is not
/// called.
int gradus_tensor_share(const gradus_array* array, void (*release)(void* context), void* context,
                        gradus_tensor** out);
/// Frees the handle.
void gradus_tensor_free(gradus_tensor* tensor);
/// Sets *out to a description of the tensor's memory, which stays valid until the handle is freed.
/// The caller may write to the memory. However, values that a recorded op has read must not change
/// until gradus_backward has run. A tensor whose element type is not a gradus_dtype, for example an
/// int8 weight of a loaded model, is an error.
int gradus_tensor_array(const gradus_tensor* tensor, gradus_array* out);
/// Writes the value of a tensor of one element to `out`.
int gradus_tensor_item(const gradus_tensor* tensor, double* out);
/// Makes a tensor with the same elements in another shape. The two tensors may share memory. One
/// size may be -1: it is computed from the others.
int gradus_tensor_reshape(const gradus_tensor* tensor, const int64_t* shape, int rank,
                          gradus_tensor** out);
/// Sets *out to the result of the op called `name`, and records the op for gradus_backward unless
/// gradus_grad_mode is off. `count` is the number of inputs. The names and inputs of the ops:
///
///     add, sub, mul, div               two tensors, which broadcast
///     matmul                           two tensors, whose batch axes broadcast
///     neg, exp, log, sqrt, relu, gelu, silu, tanh, sigmoid
///                                      one tensor; elementwise
///     softmax, log_softmax             one tensor; over the last axis
///     sum, mean                        one tensor; over all elements
///     transpose                        one tensor; swaps the last two axes
///     cross_entropy                    logits (..., C) of C classes, and targets: int64 class
///                                      indices (...) or probabilities (..., C). The result is the
///                                      mean over all examples, except those of class -100.
///     mse_loss                         two tensors of the same shape. The result is the mean over
///                                      all elements.
int gradus_op(const char* name, const gradus_tensor* const* inputs, int count, gradus_tensor** out);
/// Sets whether gradus_backward computes the tensor's gradient. The tensor must not be the result
/// of a recorded op. If `on` is not 0, the tensor must be float32 or float64.
int gradus_tensor_requires_grad(gradus_tensor* tensor, int on);
/// Sets *out to the gradient that gradus_backward has accumulated for the tensor, or to null if
/// there is none.
int gradus_tensor_grad(const gradus_tensor* tensor, gradus_tensor** out);
/// Computes the gradient of `loss` with respect to each tensor that requires one, and adds it to
/// the gradient that gradus_tensor_grad returns. Then frees the graph of `loss`. `loss` must have
/// one element and depend on a tensor that requires a gradient.
int gradus_backward(const gradus_tensor* loss);

// ---- modules ----

/// Makes a module that applies layers one after the other. `layers` describes them, separated by
/// commas, for example "linear 784 256, relu, dropout 0.1, linear 256 10". A layer is a name,
/// numbers and options NAME=NUMBER. These are the layers, with options and defaults in brackets:
///
///     linear IN OUT [bias=1] [hidden=1]      embedding COUNT DIM        dropout P
///     conv2d IN OUT KERNEL [stride=1] [padding=0] [dilation=1] [groups=1] [bias=1] [hidden=1]
///     layer_norm DIM [eps=1e-5] [bias=1]     rms_norm DIM [eps=1e-6]    batch_norm CHANNELS
///     max_pool2d SIZE [stride=SIZE] [padding=0]    avg_pool2d SIZE [stride=SIZE] [padding=0]
///     relu  gelu  silu  tanh  sigmoid  flatten
///
/// Set hidden=0 for the first convolution and for the output layer of a model: the optimiser "muon"
/// then updates the layer's weight by AdamW. Parameters are named by the index of their layer, for
/// example "0.weight", and are initialised as in PyTorch.
int gradus_sequential(const char* layers, gradus_module** out);
/// Loads a model from a folder that gradus or Hugging Face's transformers library wrote. The model
/// must be one of these two:
/// - a GPT or a model of Llama's family, which maps token ids (B, T) to logits (B, T, vocabulary);
/// - a ViT, which maps images (N, C, H, W) to logits (N, classes). A ViT without a classification
///   head can be loaded but not run.
int gradus_load(const char* folder, gradus_module** out);
/// Frees the handle.
void gradus_module_free(gradus_module* module);
/// Sets *out to the module's output for x. Dropout is active, and batch_norm uses the statistics of
/// the batch, unless gradus_eval_mode is on.
int gradus_module_run(const gradus_module* module, const gradus_tensor* x, gradus_tensor** out);
/// Writes the number of parameter tensors to `out`.
int gradus_module_parameter_count(const gradus_module* module, int64_t* out);
/// Sets *out to parameter `index`, which shares its memory with the module. If `name` is not null,
/// sets *name to the parameter's name, which is valid until `module` is freed.
int gradus_module_parameter(const gradus_module* module, int64_t index, const char** name,
                            gradus_tensor** out);
/// Sets whether the module's parameters are trained: whether gradus_backward computes their
/// gradients and optimisers update them. If `on` is 0, also clears the gradients. Initially all
/// parameters are trained, except for int8 weights of a loaded model. int8 weights cannot be
/// trained: if the module has any, `on` must be 0.
int gradus_module_requires_grad(gradus_module* module, int on);
/// Clears the parameters' gradients.
int gradus_module_zero_grad(gradus_module* module);
/// Writes the weights to a safetensors file.
int gradus_module_save(const gradus_module* module, const char* path);
/// Reads the weights from a safetensors file. The names, shapes and element types in the file must
/// match those of the module; F16 and BF16 in the file count as float32. After an error, the
/// weights are unchanged.
int gradus_module_load(gradus_module* module, const char* path);

// ---- training ----

/// Makes an optimiser of the module's parameters. `rule` is a name and options, for example "adamw
/// lr=3e-4 weight_decay=0.1". The defaults of the options are those of the C++ classes in
/// gradus/optim/optimizers.h, adaptive.h and muon.h.
///
///     sgd [lr] [momentum] [nesterov] [weight_decay]     lion [lr] [beta1] [beta2] [weight_decay]
///     adam, adamw [lr] [beta1] [beta2] [eps] [weight_decay]
///     muon [lr] [momentum] [weight_decay] [adamw_lr]
///
/// muon updates the matrices of hidden layers with Muon, and all other parameters with AdamW. lr,
/// momentum and weight_decay are Muon's options; adamw_lr is the learning rate of AdamW.
int gradus_optimizer_new(const gradus_module* module, const char* rule, gradus_optimizer** out);
/// Frees the handle.
void gradus_optimizer_free(gradus_optimizer* optimizer);
/// Updates the parameters by their gradients. If max_norm is above 0, the update uses the gradients
/// scaled down to a global norm of at most max_norm; the stored gradients do not change. A max_norm
/// of 0 means no limit; a negative one is an error.
int gradus_optimizer_step(gradus_optimizer* optimizer, double max_norm);
/// Clears the gradients.
int gradus_optimizer_zero_grad(gradus_optimizer* optimizer);
/// Sets the learning rate, from the next step on. For muon, `lr` becomes the learning rate of
/// AdamW, and Muon's learning rate changes by the same factor.
int gradus_optimizer_set_lr(gradus_optimizer* optimizer, double lr);

// ---- text ----

/// Loads a tokenizer from its file or from a model's folder.
int gradus_tokenizer_load(const char* path, gradus_tokenizer** out);
/// Frees the handle.
void gradus_tokenizer_free(gradus_tokenizer* tokenizer);
/// Writes the size of the vocabulary, in tokens, to `out`.
int gradus_tokenizer_size(const gradus_tokenizer* tokenizer, int64_t* out);
/// Writes the token ids of the text to `ids`, at most `capacity` of them. The special tokens that
/// the tokenizer puts before every text, if any, come first. Writes the total number of ids, which
/// may exceed `capacity`, to `count`. `ids` may be null if capacity is 0. Text outside the
/// vocabulary is an error if the tokenizer has no [UNK].
int gradus_tokenizer_encode(const gradus_tokenizer* tokenizer, const char* text, int64_t* ids,
                            int64_t capacity, int64_t* count);
/// Decodes `count` token ids: writes at most `capacity` bytes of the text to `text`, without a
/// terminating 0. Writes the total number of bytes, which may exceed `capacity`, to `bytes`. `text`
/// may be null if capacity is 0. The text of a single id may be only a part of a character.
int gradus_tokenizer_decode(const gradus_tokenizer* tokenizer, const int64_t* ids, int64_t count,
                            char* text, int64_t capacity, int64_t* bytes);

/// Options of gradus_generate.
typedef struct gradus_generate_options {
  int64_t tokens;      ///< maximum number of new tokens
  double temperature;  ///< divides the logits; 0 chooses the most likely token
  int64_t top_k;       ///< choose among the top_k most likely tokens; 0 means all
  /// Nucleus sampling: choose among the fewest tokens whose total probability, renormalised after
  /// top_k, reaches top_p. 1 means all.
  double top_p;
  uint64_t seed;       ///< seed of the random choices
  int64_t vocab;       ///< choose only ids below this, for example the tokenizer's size; 0 means
                       ///< all
  int64_t stop_token;  ///< generation ends when this token is chosen; on_token is not called with
                       ///< it; -1 means none
} gradus_generate_options;
/// Sets all options to their defaults: 100 new tokens, temperature 1, a choice among all tokens,
/// seed 0, no stop token.
int gradus_generate_defaults(gradus_generate_options* options);
/// Continues the prompt of `count` >= 1 token ids, and calls on_token with `context` and each new
/// token. If on_token returns a value other than 0, generation ends. on_token must not throw or
/// leave by longjmp. If the prompt is longer than the model's context, only its end is read. If
/// `options` is null, the defaults are used. The module must be a GPT or a model of Llama's family
/// that gradus_load returned. If the call fails, it may already have called on_token for some
/// tokens.
int gradus_generate(const gradus_module* module, const int64_t* prompt, int64_t count,
                    const gradus_generate_options* options,
                    int (*on_token)(void* context, int64_t token), void* context);

#ifdef __cplusplus
}
#endif

#endif
