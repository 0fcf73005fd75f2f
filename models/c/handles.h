#pragma once
// The structs to which the C interface's handles point, and helpers that catch errors and parse the
// descriptions of layers and optimisers. Internal: no public header includes this file.

#include <memory>

#include "gradus/models/c/gradus.h"
#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/decoding.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"

struct gradus_tensor {
  gradus::Tensor value;
};

struct gradus_module {
  std::shared_ptr<gradus::nn::Module> module;  // used by run and generate
  std::function<gradus::Tensor(const gradus::Tensor&)> run;
  // Empty unless the module is a language model.
  std::function<void(const std::vector<int64_t>&, const gradus::models::GenerateOptions&)> generate;
  gradus::NamedTensors parameters;
};

struct gradus_optimizer {
  std::unique_ptr<gradus::optim::Optimizer> value;
};

struct gradus_tokenizer {
  std::unique_ptr<gradus::models::Tokenizer> value;
};

namespace gradus::models::internal {

/// Stores the message for gradus_last_error(), and returns `status`.
int failed(gradus_status status, const char* message) noexcept;

/// Calls f and returns GRADUS_OK or, if f throws, the code of the error.
template <class F>
int guarded(const F& f) noexcept {
  try {
    f();
    return GRADUS_OK;
  } catch (const OutOfMemory& e) {
    return failed(GRADUS_NO_MEMORY, e.what());
  } catch (const Error& e) {
    return failed(GRADUS_INVALID, e.what());
  } catch (const std::bad_alloc&) {
    return failed(GRADUS_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(GRADUS_INTERNAL, e.what());
  } catch (...) {
    return failed(GRADUS_INTERNAL, "an exception of an unknown type");
  }
}

/// Throws Error if a pointer is null. The message begins with `op`.
template <class... Pointers>
void check_given(const char* op, const Pointers*... pointers) {
  core::check((pointers && ...), op, ": expected a pointer, got null");
}

/// Sets *out to a new handle of the tensor.
inline void hand_out(Tensor value, gradus_tensor** out) {
  *out = new gradus_tensor{std::move(value)};
}

/// A parsed description of a layer or an optimiser: a name, numbers and options of the form
/// NAME=NUMBER, for example "conv2d 3 16 3 padding=1". All error messages begin with `op`.
class Spec {
 public:
  /// Parses `text`. Throws Error if `text` contains no name, or if a word after the name is neither
  /// a number nor an option.
  Spec(const char* op, const std::string& text);
  const std::string& name() const { return name_; }
  /// Throws Error unless this description has exactly `count` numbers.
  void expect(size_t count) const;
  double number(size_t i) const { return numbers_[i]; }
  /// Returns number i of this description, counted from 0. Throws Error unless it is an integer.
  int64_t size(size_t i) const;
  /// Sets `value` to the number given for the option called `option`. Leaves `value` unchanged if
  /// this description lacks the option. If `value` is an int64_t, throws Error unless the number is
  /// an integer. If `value` is a bool, throws Error unless the number is 0 or 1.
  void read(const char* option, double& value);
  void read(const char* option, int64_t& value);
  void read(const char* option, bool& value);
  /// Throws Error if this description has an option for which read() was not called, or has the
  /// same option twice. Call check_used() after all calls of read().
  void check_used() const;

 private:
  int64_t whole(double value) const;
  const char* op_;
  std::string text_, name_;
  std::vector<double> numbers_;
  std::vector<std::pair<std::string, double>> options_;  // options that read() has not read yet
};

/// Returns the module that `layers` describes, in the syntax of gradus_sequential.
gradus_module make_sequential(const char* layers);
/// Returns an optimiser of the module's parameters. `rule` describes the optimiser, in the syntax
/// of gradus_optimizer_new.
std::unique_ptr<optim::Optimizer> make_optimizer(const nn::Module& module, const char* rule);

}  // namespace gradus::models::internal
