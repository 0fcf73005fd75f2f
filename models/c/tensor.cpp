// The C interface's library and tensor functions.

#include <string>

#include "gradus/core/debug/build_info.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/c/handles.h"

namespace gradus::models::internal {

namespace {
thread_local std::string last_error;
thread_local const char* last_message = "";

static_assert(static_cast<int>(float32) == GRADUS_FLOAT32 &&
              static_cast<int>(float64) == GRADUS_FLOAT64 &&
              static_cast<int>(int64) == GRADUS_INT64 && static_cast<int>(boolean) == GRADUS_BOOL &&
              max_rank == GRADUS_MAX_RANK);

/// A tensor over the array's memory, see from_blob.
Tensor over(const char* op, const gradus_array& array, std::function<void(void*)> deleter) {
  core::check(array.dtype >= GRADUS_FLOAT32 && array.dtype <= GRADUS_BOOL, op,
              ": expected a gradus_dtype, got ", array.dtype);
  core::check(array.rank >= 0 && array.rank <= GRADUS_MAX_RANK, op, ": expected a rank of 0 to ",
              GRADUS_MAX_RANK, ", got ", array.rank);
  Shape shape, strides;
  for (int i = 0; i < array.rank; ++i) {
    shape.push_back(array.shape[i]);
    strides.push_back(array.strides[i]);
  }
  return from_blob(array.data, shape, strides, static_cast<Dtype>(array.dtype), std::move(deleter));
}

struct Op {
  const char* name;
  int inputs;
  std::function<Tensor(const Tensor&, const Tensor&)> apply;  // the second is undefined for one
};

const Op& find_op(const char* name) {
  static const std::vector<Op> ops{
      {"add", 2, [](auto& x, auto& y) { return x + y; }},
      {"sub", 2, [](auto& x, auto& y) { return x - y; }},
      {"mul", 2, [](auto& x, auto& y) { return x * y; }},
      {"div", 2, [](auto& x, auto& y) { return x / y; }},
      {"matmul", 2, [](auto& x, auto& y) { return matmul(x, y); }},
      {"neg", 1, [](auto& x, auto&) { return -x; }},
      {"exp", 1, [](auto& x, auto&) { return exp(x); }},
      {"log", 1, [](auto& x, auto&) { return log(x); }},
      {"sqrt", 1, [](auto& x, auto&) { return sqrt(x); }},
      {"relu", 1, [](auto& x, auto&) { return relu(x); }},
      {"gelu", 1, [](auto& x, auto&) { return gelu(x); }},
      {"silu", 1, [](auto& x, auto&) { return silu(x); }},
      {"tanh", 1, [](auto& x, auto&) { return tanh(x); }},
      {"sigmoid", 1, [](auto& x, auto&) { return sigmoid(x); }},
      {"softmax", 1, [](auto& x, auto&) { return x.softmax(-1); }},
      {"log_softmax", 1, [](auto& x, auto&) { return x.log_softmax(-1); }},
      {"sum", 1, [](auto& x, auto&) { return x.sum(); }},
      {"mean", 1, [](auto& x, auto&) { return x.mean(); }},
      {"transpose", 1, [](auto& x, auto&) { return x.mT(); }},
      {"cross_entropy", 2, [](auto& x, auto& y) { return cross_entropy(x, y); }},
      {"mse_loss", 2, [](auto& x, auto& y) { return mse_loss(x, y); }},
  };
  std::string names;
  for (const Op& op : ops) {
    if (op.name == std::string_view(name)) return op;
    names += std::string(names.empty() ? "" : ", ") + op.name;
  }
  core::fail("gradus_op: expected one of ", names, ", got \"", name, '"');
}
}  // namespace

int failed(gradus_status status, const char* message) noexcept {
  try {
    last_error = message;
    last_message = last_error.c_str();
  } catch (...) {
    last_message = "out of memory";
  }
  return status;
}

}  // namespace gradus::models::internal

using namespace gradus;
using namespace gradus::models::internal;

const char* gradus_version(void) {
  static const std::string text = version();
  return text.c_str();
}
const char* gradus_last_error(void) { return last_message; }

int gradus_set_threads(int n) {
  return guarded([&] { set_num_threads(n); });
}
int gradus_seed(uint64_t seed) {
  return guarded([&] { manual_seed(seed); });
}
int gradus_grad_mode(int on) { return std::exchange(core::modes().grad, on != 0) ? 1 : 0; }
int gradus_eval_mode(int on) { return std::exchange(core::modes().eval, on != 0) ? 1 : 0; }

int gradus_tensor_copy(const gradus_array* array, gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_tensor_copy", array, out);
    hand_out(over("gradus_tensor_copy", *array, {}).clone(), out);
  });
}

int gradus_tensor_share(const gradus_array* array, void (*release)(void* context), void* context,
                        gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_tensor_share", array, out);
    auto handle = std::make_unique<gradus_tensor>();
    std::function<void(void*)> deleter;
    if (release) deleter = [=](void*) { release(context); };
    handle->value = over("gradus_tensor_share", *array, std::move(deleter));
    *out = handle.release();
  });
}

void gradus_tensor_free(gradus_tensor* tensor) { delete tensor; }

int gradus_tensor_array(const gradus_tensor* tensor, gradus_array* out) {
  return guarded([&] {
    check_given("gradus_tensor_array", tensor, out);
    const Tensor& x = tensor->value;
    core::check(!is_compressed(x.dtype()), "gradus_tensor_array: elements of ", x.dtype(),
                " have no C type");
    gradus_array array{};
    dispatch_any("gradus_tensor_array", x.dtype(),
                 [&]<class T>(TypeTag<T>) { array.data = x.data<T>(); });
    array.dtype = static_cast<int32_t>(x.dtype());
    array.rank = x.rank();
    std::copy(x.shape().begin(), x.shape().end(), array.shape);
    std::copy(x.strides().begin(), x.strides().end(), array.strides);
    *out = array;
  });
}

int gradus_tensor_item(const gradus_tensor* tensor, double* out) {
  return guarded([&] {
    check_given("gradus_tensor_item", tensor, out);
    *out = tensor->value.item();
  });
}

int gradus_tensor_reshape(const gradus_tensor* tensor, const int64_t* shape, int rank,
                          gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_tensor_reshape", tensor, out);
    core::check(rank >= 0, "gradus_tensor_reshape: expected a rank >= 0, got ", rank);
    core::check(rank == 0 || shape, "gradus_tensor_reshape: expected ", rank, " sizes, got null");
    Shape sizes;
    for (int i = 0; i < rank; ++i) sizes.push_back(shape[i]);
    hand_out(tensor->value.reshape(sizes), out);
  });
}

int gradus_op(const char* name, const gradus_tensor* const* inputs, int count,
              gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_op", name, inputs, out);
    const Op& op = find_op(name);
    core::check(count == op.inputs, name, ": expected ", op.inputs, " inputs, got ", count);
    for (int i = 0; i < count; ++i) check_given(name, inputs[i]);
    hand_out(op.apply(inputs[0]->value, count > 1 ? inputs[1]->value : Tensor()), out);
  });
}

int gradus_tensor_requires_grad(gradus_tensor* tensor, int on) {
  return guarded([&] {
    check_given("gradus_tensor_requires_grad", tensor);
    tensor->value.requires_grad_(on != 0);
  });
}

int gradus_tensor_grad(const gradus_tensor* tensor, gradus_tensor** out) {
  return guarded([&] {
    check_given("gradus_tensor_grad", tensor, out);
    const Tensor grad = tensor->value.grad();
    if (grad.defined())
      hand_out(grad, out);
    else
      *out = nullptr;
  });
}

int gradus_backward(const gradus_tensor* loss) {
  return guarded([&] {
    check_given("gradus_backward", loss);
    loss->value.backward();
  });
}
