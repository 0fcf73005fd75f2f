#pragma once
// Many texts generated at once by one model: its weights are read once per step, not once per text.

#include <map>
#include <vector>

#include "gradus/models/gpt.h"

namespace gradus::models {

/// Continues many prompts together, one token of each per step(). Requests wait until a row is free
/// and leave when their text ends, whatever the others do. Each text is the one that generate()
/// returns for the same prompt and options, up to the rounding of the logits.
class Server {
 public:
  /// At most `rows` texts are continued at a time. The model must outlive the server.
  explicit Server(const GPT& model, int64_t rows = 32);
  /// Adds a request and returns its number: 0, 1, 2, .... `options.on_token` and the other functions
  /// are called within step(). Throws Error as generate() does.
  int64_t add(const std::vector<int64_t>& prompt, const GenerateOptions& options = {});
  /// Appends a token to each text that has a row. Returns false if no request is unfinished. If it
  /// throws, the server can no longer be used.
  bool step();
  /// Whether the request's text has ended. Throws Error unless add() returned this number and take()
  /// has not removed it.
  bool finished(int64_t request) const;
  /// Removes a finished request and returns its new tokens.
  std::vector<int64_t> take(int64_t request);
  /// Removes a request, finished or not. Not for use within a request's functions: there, stop_if ends
  /// its text.
  void cancel(int64_t request);
  /// Requests with a row.
  int64_t running() const { return std::ssize(rows_); }

 private:
  const internal::Continuation& find(int64_t request) const;
  bool read(int64_t request, int64_t tokens);
  void leave(size_t row);

  int64_t capacity_;
  GPTDecoder decoder_, single_;  // `single_` reads prompts
  std::map<int64_t, internal::Continuation> texts_;
  std::vector<int64_t> waiting_, rows_;  // requests; rows_[i] has the decoder's row i
  int64_t next_ = 0;
};

/// Continues all prompts with one Server, at most `rows` at a time. options[i] goes with prompts[i].
std::vector<std::vector<int64_t>> generate_all(const GPT& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               const std::vector<GenerateOptions>& options,
                                               int64_t rows = 32);

}  // namespace gradus::models
