#pragma once
// The page of a run: what it shows, the questions that its reader asks, and its controls.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/page/question.h"
#include "examples/page/run_view.h"
#include "examples/page/server.h"

namespace gradus {

/// A page about one or several runs, served while this exists. Its threads touch no tensor: what
/// needs the model is asked here and answered by the thread that calls answer().
class RunPage {
 public:
  struct Options {
    int64_t port = 8080;    ///< 0: any free one
    std::string title;      ///< of the page
    std::string loss;       ///< the name of the loss
    int64_t steps = 0;      ///< of the whole run; 0: it is not training
    bool controls = false;  ///< its reader may pause the run and change the learning rate
  };
  /// What its reader has asked for, to be done between two steps.
  struct Rate {
    int64_t step;   ///< from this step on
    double factor;  ///< of the schedule's learning rate
  };
  using Probe = std::function<std::string(const Question&)>;

  /// Throws Error if the port is in use.
  RunPage(Options options, std::vector<RunView*> views);
  ~RunPage();
  RunPage(const RunPage&) = delete;
  RunPage& operator=(const RunPage&) = delete;
  std::string address() const { return server_->address(); }

  /// Answers the questions asked, with probe(), and waits while the run is paused after `step`
  /// steps, until interrupted(). Unless paused or `always`, it leaves questions for later that would
  /// slow the run down by more than a hundredth. Returns the changes of the learning rate.
  std::vector<Rate> answer(int64_t step, const Probe& probe, bool always = false);
  /// Seconds spent in answer() while the run was paused, since the last call.
  double paused_seconds() { return std::exchange(paused_seconds_, 0); }
  /// Whether something that takes the training thread's time is affordable now; `share` of it.
  bool affordable(double share) const;
  /// Counts time that the training thread has spent on the page.
  void spent(double seconds) { spent_ += seconds; }
  /// What the reader is told about changes of the learning rate, see RateByHand::text().
  void set_rates(const std::string& rates);
  /// The page as one file, with all that it shows and the answer to a question.
  std::string saved(const std::string& answer) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    Question question;
    std::optional<Reply> reply;
    bool abandoned = false;
  };
  Reply handle(const std::string& path, const std::string& argument);
  Reply ask(const std::string& body);
  Reply control(const std::string& body);
  std::string data(const std::string& cursors, size_t most) const;
  std::string state() const;
  void answer_one(std::unique_lock<std::mutex>& lock, const Probe& probe);

  const Options o_;
  const std::vector<RunView*> views_;
  mutable std::mutex mutex_;  // of all up to `closing_`
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Asked>> asked_;
  std::vector<Rate> rates_;
  std::string rates_text_;
  int64_t pause_at_ = -1;  // pause once this many steps are done; -1: do not
  int64_t step_ = 0;
  bool closing_ = false;
  std::atomic<bool> something_ = true;  // for answer() to do
  const Clock::time_point start_ = Clock::now();
  double spent_ = 0, paused_seconds_ = 0, all_paused_ = 0;  // used by one thread
  std::unique_ptr<PageServer> server_;                      // the last: its threads use the others
};

}  // namespace gradus
