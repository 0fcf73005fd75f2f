#include "examples/training/training_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "examples/training/keep_random_state.h"
#include "gradus/core/files/file.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double statistics_share = 0.004;  // of the training's time, at most
constexpr int64_t steps_between_statistics = 10;

/// Redirects stdout to memory; finish() prints it to stdout after all, and returns it.
class Capture {
 public:
  Capture() : file_(::memfd_create("sample", MFD_CLOEXEC)), stdout_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    if (file_ >= 0 && stdout_ >= 0) ::dup2(file_, STDOUT_FILENO);
  }
  ~Capture() { finish(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string finish() {
    std::string text;
    std::fflush(stdout);
    if (stdout_ >= 0) ::dup2(stdout_, STDOUT_FILENO);
    char buffer[4096];
    if (file_ >= 0) ::lseek(file_, 0, SEEK_SET);
    for (ssize_t n; file_ >= 0 && (n = ::read(file_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    for (const int fd : {file_, stdout_})
      if (fd >= 0) ::close(fd);
    file_ = stdout_ = -1;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return text;
  }

 private:
  int file_, stdout_;
};

}  // namespace

void TrainingPage::open(int64_t step, const Ranks& ranks) {
  if (o_.page < 0 || !ranks.is_first()) return;
  try {
    page_.emplace(RunPage::Options{.port = o_.page,
                                   .title = info_.model + " in " + o_.out,
                                   .loss = info_.loss,
                                   .steps = o_.steps,
                                   .controls = !ranks.several()},
                  std::vector<RunView*>{&view_});
  } catch (const Error& error) {
    std::printf("no page: %s; training goes on without it\n", error.what());
    std::fflush(stdout);
    return;
  }
  if (o_.resume) {
    view_.read(step);
    view_.rewrite();
  }
  page_->set_rates(rates_.text());
  std::printf("page   %s\n", page_->address().c_str());
  std::fflush(stdout);
}

std::string TrainingPage::probe(const Question& question) const {
  const NoGrad no_grad;
  const EvalMode eval;
  const KeepRandomState random;
  const std::string answer = task_.probe(question);
  return answer.empty() ? "{\"kind\":\"none\"}" : answer;
}

Clock::duration TrainingPage::serve(int64_t step, Progress& progress) {
  if (!page_) return {};
  const auto changes = page_->answer(step, [this](const Question& q) { return probe(q); });
  for (const auto& [from, factor] : changes) {
    rates_.change(from, factor);
    page_->set_rates(rates_.text());
    char line[120];
    std::snprintf(line, sizeof line,
                  "by hand: from step %lld the learning rate is %g times the schedule's",
                  static_cast<long long>(from), factor);
    progress.note(line);
  }
  const Seconds paused(page_->paused_seconds());
  if (paused.count() > 0) progress.go_on();
  return std::chrono::duration_cast<Clock::duration>(paused);
}

void TrainingPage::before_update(int64_t step) {
  if (!page_ || step < statistics_at_ || !page_->affordable(statistics_share)) return;
  const Clock::time_point start = Clock::now();
  statistics_.emplace(task_.model());
  page_->spent(Seconds(Clock::now() - start).count());
}

void TrainingPage::after_update(const StepLog::Row& row) {
  if (!page_) return;
  view_.add(row);
  if (!statistics_) return;
  const Clock::time_point start = Clock::now();
  const NoGrad no_grad;
  const EvalMode eval;
  const KeepRandomState random;
  view_.add_layers(row.step, statistics_->take(task_.activations()));
  statistics_.reset();
  statistics_at_ = row.step + steps_between_statistics;
  page_->spent(Seconds(Clock::now() - start).count());
}

void TrainingPage::show(int64_t step) {
  if (!page_) return task_.show();
  Capture capture;
  task_.show();
  view_.add_sample(step, capture.finish());
}

void TrainingPage::save() {
  if (!page_) return;
  std::string answer;
  try {
    answer = probe({});
  } catch (const Error&) {  // a text that the model cannot read, for example
  }
  view_.flush();
  write_file_atomically(o_.out + "/page.html", page_->saved(answer));
  std::printf("page: %s/page.html\n", o_.out.c_str());
}

}  // namespace gradus
