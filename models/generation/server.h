#pragma once
// Generates many texts at once with one model. Each step computes the next tokens of all texts as a
// batch, so that the model's weights are read from memory once, not once per text. Prompts are not
// batched: the model reads them one at a time. When a text fills the model's context, the model
// reads the last half of that context again, also without batching, and continues from there.

#include <exception>
#include <map>
#include <vector>

#include "gradus/models/gpt.h"

namespace gradus::models {

/// Continues many prompts together as rows of one batch: each step() samples a token for every row.
/// A request waits until a row is free, and frees its row when its text ends, independently of
/// other requests. Each text equals what generate() returns for the same prompt and options, up to
/// rounding of the logits. This rounding can differ only with more than 64 rows, with weights in
/// bfloat16 or int8, or with matrix products in bfloat16.
class Server {
 public:
  /// Makes a server that continues at most `rows` texts at a time. Throws Error if rows < 1. The
  /// model must outlive the server.
  explicit Server(const GPT& model, int64_t rows = 32);
  /// Adds a request and returns its number: 0, 1, 2, and so on. step() calls options.on_token and
  /// options.stop_if, and appends to *options.log_probabilities: these three must stay valid until
  /// the request is finished or cancelled. options.held is ignored. Throws Error if the prompt or
  /// an option is invalid; an invalid logit_bias makes step() throw instead.
  int64_t add(const std::vector<int64_t>& prompt, const GenerateOptions& options = {});
  /// Samples a token for each text that has a row. Then moves waiting requests to free rows: reads
  /// their prompts and samples their first tokens. Returns false if all requests are finished.
  ///
  /// If sampling for a request throws an exception, for example in its on_token, step() removes
  /// this request, as cancel() does. It continues the other requests and at the end rethrows the
  /// first such exception. After any other exception, for example for lack of memory, the server
  /// must not be used any more.
  bool step();
  /// Returns whether the request has finished. Throws Error if there is no request with this
  /// number, for example after take() or cancel() has removed the request.
  bool finished(int64_t request) const;
  /// Removes a finished request and returns its new tokens. Throws Error if the request has not
  /// finished or does not exist.
  std::vector<int64_t> take(int64_t request);
  /// Removes a request, finished or not. Throws Error if it does not exist. on_token and stop_if
  /// must not call cancel(); to end a text, let stop_if return true.
  void cancel(int64_t request);
  /// Returns the number of texts that are being continued. Requests that wait for a row do not
  /// count.
  int64_t running() const { return std::ssize(rows_); }

 private:
  const internal::Continuation& find(int64_t request) const;
  bool sample(int64_t request, const Tensor& logits);
  void read(int64_t request, int64_t tokens);
  void leave(size_t row);

  int64_t capacity_;
  // decoder_ continues the running texts, one per row. single_ reads prompts, and rereads texts
  // that have filled the context.
  GPTDecoder decoder_, single_;
  std::map<int64_t, internal::Continuation> texts_;
  std::vector<int64_t> waiting_, rows_;  // request numbers; rows_[i] occupies row i of decoder_
  int64_t next_ = 0;
  std::exception_ptr failure_;  // first exception of sampling in the current step(), or null
};

/// Continues all prompts with one Server of `rows` rows, and returns the new tokens of each prompt.
/// options[i] belongs to prompts[i]. Throws Error unless there are as many options as prompts. Also
/// throws the errors of Server.
std::vector<std::vector<int64_t>> generate_all(const GPT& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               const std::vector<GenerateOptions>& options,
                                               int64_t rows = 32);

}  // namespace gradus::models
