#include "gradus/models/generation/server.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/shape.h"

namespace gradus::models {

Server::Server(const GPT& model, int64_t rows)
    : capacity_(rows), decoder_(model, rows), single_(model, 1) {
  while (!decoder_.lengths().empty()) decoder_.remove_row(0);
}

int64_t Server::add(const std::vector<int64_t>& prompt, const GenerateOptions& options) {
  texts_.emplace(next_, internal::Continuation(decoder_.vocab(), prompt, options));
  if (texts_.at(next_).running()) waiting_.push_back(next_);
  return next_++;
}

/// Samples a token for a request. Returns whether its text continues. If sampling throws, removes
/// the request and keeps the first exception, which step() throws at its end.
bool Server::sample(int64_t request, const Tensor& logits) {
  try {
    texts_.at(request).add(logits);
    return !finished(request);
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
    texts_.erase(request);
    return false;
  }
}

/// Samples a token after reading the last `tokens` of a request. The request takes a row unless its
/// text has ended.
void Server::read(int64_t request, int64_t tokens) {
  single_.clear();
  const Tensor logits = single_.next_logits(texts_.at(request).last(tokens));
  if (!sample(request, logits[0])) return;
  decoder_.add_row(single_);
  rows_.push_back(request);
}

void Server::leave(size_t row) {
  decoder_.remove_row(static_cast<int64_t>(row));
  rows_[row] = rows_.back();
  rows_.pop_back();
}

bool Server::step() {
  const NoGrad no_grad;
  const EvalMode eval;
  // A text that fills its row is read again from half of it, as generate() does.
  std::vector<int64_t> full;
  for (size_t row = rows_.size(); row-- > 0;)
    if (decoder_.lengths()[row] == decoder_.capacity()) {
      full.push_back(rows_[row]);
      leave(row);
    }
  std::vector<Tensor> ids;
  for (const int64_t request : rows_) ids.push_back(texts_.at(request).last(1));
  if (!ids.empty()) {
    const Tensor logits = decoder_.next_logits(cat(ids, 0));
    for (size_t row = rows_.size(); row-- > 0;)
      if (!sample(rows_[row], logits[static_cast<int64_t>(row)])) leave(row);
  }
  for (const int64_t request : full) read(request, std::max<int64_t>(decoder_.capacity() / 2, 1));
  while (!waiting_.empty() && running() < capacity_) {
    read(waiting_.front(), decoder_.capacity());
    waiting_.erase(waiting_.begin());
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return !rows_.empty() || !waiting_.empty();
}

const internal::Continuation& Server::find(int64_t request) const {
  const auto found = texts_.find(request);
  check(found != texts_.end(), "Server: there is no request ", request);
  return found->second;
}

bool Server::finished(int64_t request) const { return !find(request).running(); }

std::vector<int64_t> Server::take(int64_t request) {
  check(finished(request), "Server: request ", request, " has not ended");
  std::vector<int64_t> tokens = find(request).tokens();
  texts_.erase(request);
  return tokens;
}

void Server::cancel(int64_t request) {
  find(request);
  std::erase(waiting_, request);
  const auto row = std::find(rows_.begin(), rows_.end(), request);
  if (row != rows_.end()) leave(static_cast<size_t>(row - rows_.begin()));
  texts_.erase(request);
}

std::vector<std::vector<int64_t>> generate_all(const GPT& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               const std::vector<GenerateOptions>& options,
                                               int64_t rows) {
  check(prompts.size() == options.size(), "generate_all: expected one of options per prompt, got ",
        options.size(), " for ", prompts.size());
  Server server(model, rows);
  for (size_t i = 0; i < prompts.size(); ++i) server.add(prompts[i], options[i]);
  while (server.step()) continue;
  std::vector<std::vector<int64_t>> texts;
  for (int64_t i = 0; i < std::ssize(prompts); ++i) texts.push_back(server.take(i));
  return texts;
}

}  // namespace gradus::models
