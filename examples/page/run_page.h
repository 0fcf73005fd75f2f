#pragma once
// Serves a web page about one or several runs. The page shows their data and answers questions
// about the model. It may also let the reader pause the run and change its learning rate.

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

/// A page about one or several runs, served during the lifetime of this object. The server's
/// threads use no tensors: questions that need the model are queued, and the thread that calls
/// answer() answers them.
class RunPage {
 public:
  struct Options {
    int64_t port = 8080;    ///< 0 means any free port
    std::string title;      ///< title of the page
    std::string loss;       ///< name of the loss
    int64_t steps = 0;      ///< total number of steps of the run; 0 if this process does not train
    bool controls = false;  ///< whether the page can pause the run and change its learning rate
  };
  /// A change of the learning rate that the reader of the page has requested.
  struct Rate {
    int64_t step;   ///< first step to which the factor applies
    double factor;  ///< multiplies the learning rate of the schedule
  };
  using Probe = std::function<std::string(const Question&)>;

  /// Starts the server. `views` must outlive the page. Throws Error if the port is in use or not
  /// allowed.
  RunPage(Options options, std::vector<RunView*> views);
  ~RunPage();
  RunPage(const RunPage&) = delete;
  RunPage& operator=(const RunPage&) = delete;
  std::string address() const { return server_->address(); }

  /// Answers the queued questions with probe(), and returns the changes of the learning rate that
  /// the reader has requested since the last call. `step` is the number of steps done. While the
  /// run is paused, keeps answering until the reader resumes the run or interrupted() is true. If
  /// the run is not paused and `always` is false, the time for answers is limited: once the work
  /// for the page has taken 0.2 seconds in total, questions are answered only while the work has
  /// taken at most 1% of the training thread's time. Other questions stay queued for later calls. A
  /// reader whose question has no answer after 10 seconds gets an error.
  std::vector<Rate> answer(int64_t step, const Probe& probe, bool always = false);
  /// Returns how many seconds answer() has spent in pauses since the last call of this function.
  double paused_seconds() { return std::exchange(paused_seconds_, 0); }
  /// Returns whether the work for the page has taken at most the fraction `share` of the training
  /// thread's time, measured from the construction of this object and without pauses.
  bool affordable(double share) const;
  /// Tells affordable() that work for the page has taken `seconds` of the training thread's time.
  void spent(double seconds) { spent_ += seconds; }
  /// Sets the changes of the learning rate that the page shows, as returned by RateByHand::text(),
  /// for example "101:0.5 201:2".
  void set_rates(const std::string& rates);
  /// Returns the page with all its data as one self-contained HTML text. The page also shows
  /// `answer`, the answer to one question as JSON. If `answer` is not JSON, for example "", the
  /// page shows no answer.
  std::string saved(const std::string& answer) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    Question question;
    std::optional<Reply> reply;
  };
  Reply handle(const std::string& path, const std::string& argument);
  Reply ask(const std::string& body);
  Reply control(const std::string& body);
  std::string data(const std::string& cursors, size_t most) const;
  std::string state() const;
  void answer_one(std::unique_lock<std::mutex>& lock, const Probe& probe);

  const Options o_;
  const std::vector<RunView*> views_;
  mutable std::mutex mutex_;  // guards the members below, up to closing_
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Asked>> asked_;
  std::vector<Rate> rates_;
  std::string rates_text_;
  int64_t pause_at_ = -1;  // pause after this many steps; -1 means no pause
  int64_t step_ = 0;
  bool is_waiting_ = false;  // whether the run is paused now
  bool closing_ = false;
  std::atomic<bool> something_ = true;  // whether answer() has something to do
  const Clock::time_point start_ = Clock::now();
  double spent_ = 0, paused_seconds_ = 0, all_paused_ = 0;  // used only by the training thread
  // The last member, so that it is destroyed first: its threads use the other members.
  std::unique_ptr<PageServer> server_;
};

}  // namespace gradus
