#pragma once
// Generation of many texts at once by one model. The weights are read once per step for all texts,
// not once per text.

#include <map>
#include <vector>

#include "gradus/models/gpt.h"

namespace gradus::models {

/// Continues many prompts together, by one token each per step(). A request waits until a row is
/// free, and frees its row when its text ends, independently of other requests. Each text equals
/// what generate() returns for the same prompt and options. Only with more than 64 rows, weights in
/// bfloat16 or int8, or products in bfloat16 do the logits differ by their rounding.
class Server {
 public:
  /// Serves at most `rows` texts at a time. The model must outlive the server.
  explicit Server(const GPT& model, int64_t rows = 32);
  /// Adds a request and returns its number: 0, 1, 2, and so on. `options.on_token` and the other
  /// functions are called during step(). Throws the errors of generate().
  int64_t add(const std::vector<int64_t>& prompt, const GenerateOptions& options = {});
  /// Appends a token to each text that has a row. Returns false if all requests are finished. If it
  /// throws, the server must not be used any more.
  bool step();
  /// Returns whether the request's text has ended. Throws Error unless add() returned this number
  /// and take() has not removed the request.
  bool finished(int64_t request) const;
  /// Removes a finished request and returns its new tokens.
  std::vector<int64_t> take(int64_t request);
  /// Removes a request, finished or not. The functions in a request's options must not call this;
  /// to end the text, stop_if returns true.
  void cancel(int64_t request);
  /// Returns the number of requests that have a row.
  int64_t running() const { return std::ssize(rows_); }

 private:
  const internal::Continuation& find(int64_t request) const;
  void read(int64_t request, int64_t tokens);
  void leave(size_t row);

  int64_t capacity_;
  GPTDecoder decoder_, single_;  // `single_` reads prompts
  std::map<int64_t, internal::Continuation> texts_;
  std::vector<int64_t> waiting_, rows_;  // requests; rows_[i] has row i of the decoder
  int64_t next_ = 0;
};

/// Continues all prompts with one Server, at most `rows` at a time. options[i] belongs to
/// prompts[i].
std::vector<std::vector<int64_t>> generate_all(const GPT& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               const std::vector<GenerateOptions>& options,
                                               int64_t rows = 32);

}  // namespace gradus::models
