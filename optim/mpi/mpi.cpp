#include "gradus/optim/mpi/mpi.h"

// Without MPI's old C++ interface.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

namespace gradus::optim {

namespace {

using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Tags of messages: data; "which call are you in?", its answer; "I have failed".
enum Tag { data = 1, question, answer, failure };

/// A rank's answer to a question.
struct State {
  int64_t call = 0;     // number of its last call
  int64_t waiting = 0;  // 1 in that call, 0 after it
};

/// Seconds that ranks have to answer a question, and to hear who reports the failure.
constexpr double time_to_answer = 2, time_to_report = 3;
/// Bytes per message to another machine: Open MPI sends short ones over TCP in both directions at
/// once (950 Mbit/s each way on a line of 1 Gbit/s), but takes turns with long ones (490).
constexpr size_t short_message = 60 << 10;
/// Bytes per message on one machine. MPI counts them in an int.
constexpr size_t long_message = 1 << 30;
/// Number of deadlines after which a rank is given up although it answers.
constexpr int deadlines_of_the_living = 10;

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  core::fail("MPI: ", what, ": ", std::string(text, static_cast<size_t>(length)));
}

/// Yields, then sleeps for longer and longer times, so that a waiting rank leaves the processor to
/// ranks that compute.
class Pause {
 public:
  void operator()() {
    if (++rounds_ < 50) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + rounds_ / 10, 500)));
  }

 private:
  int rounds_ = 0;
};

/// Messages under way, each to or from a rank.
struct Transfers {
  std::vector<MPI_Request> requests;
  std::vector<int> ranks;

  /// Receives `bytes` in messages of at most `most` bytes.
  void receive(WritableBytes bytes, int from, size_t most) {
    each_piece(bytes, from, most, [&](WritableBytes piece, MPI_Request* request) {
      return MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, from, data,
                       MPI_COMM_WORLD, request);
    });
  }
  void send(Bytes bytes, int to, size_t most) {
    each_piece(bytes, to, most, [&](Bytes piece, MPI_Request* request) {
      return MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, to, data,
                       MPI_COMM_WORLD, request);
    });
  }
  bool complete() {
    int all = 0;
    const auto n = static_cast<int>(requests.size());
    check_mpi(MPI_Testall(n, requests.data(), &all, MPI_STATUSES_IGNORE), "receiving");
    return all != 0;
  }
  /// Returns the ranks that have not yet sent or received all of their data.
  std::vector<int> missing() {
    std::vector<int> found;
    for (size_t i = 0; i < requests.size(); ++i) {
      int done = 0;
      MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
      if (!done && (found.empty() || found.back() != ranks[i])) found.push_back(ranks[i]);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

 private:
  template <class Span, class Start>
  void each_piece(Span bytes, int rank, size_t most, const Start& start) {
    for (size_t at = 0; at < bytes.size(); at += most) {
      requests.push_back(MPI_REQUEST_NULL);
      ranks.push_back(rank);
      const Span piece = bytes.subspan(at, std::min(most, bytes.size() - at));
      check_mpi(start(piece, &requests.back()), "starting a transfer");
    }
  }
};

/// The state that the communicator shares with the thread that initialises and finalises MPI. Both
/// of these calls wait for all ranks, perhaps for ever: after a time limit, the communicator
/// detaches the thread.
struct Phases {
  std::mutex mutex;
  std::condition_variable changed;
  bool initialised = false, finalising = false, ended = false, left = false;
  int status = MPI_SUCCESS, provided = 0;

  /// Returns whether the communicator is still there.
  bool reach(bool& phase) {
    const std::lock_guard lock(mutex);
    phase = true;
    changed.notify_all();
    return !left;
  }
  /// Returns false, and leaves the thread, if it does not reach `phase` in time.
  bool wait(const bool& phase, double seconds) {
    std::unique_lock lock(mutex);
    const std::chrono::duration<double> most(seconds);
    left = !changed.wait_for(lock, most, [&] { return phase; });
    return !left;
  }
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const MpiOptions& options);
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int threads() const override { return threads_; }
  void all_to_all(const std::vector<SentPieces>& send, const std::vector<ReceivedPieces>& receive,
                  const std::string& what) override;
  bool abort() noexcept override;

 private:
  void share_processors();
  size_t message_size(int other) const;
  void read_control();
  void control(int to, Tag tag, const State& state = {});
  void run_mpi(Phases& phases);
  void answer_questions();
  void end_mpi();
  bool wait(Transfers& transfers, double seconds, const std::string& what);
  bool others_live(Transfers& transfers, const std::string& what);
  void give_up(Transfers& transfers, const std::string& what);
  std::vector<int> at_fault(const std::vector<int>& missing) const;

  MpiOptions options_;
  int rank_ = 0, size_ = 1, threads_ = 1;
  std::vector<std::string> hosts_;

  // One thread at a time calls MPI: the caller of all_to_all, of abort, or mpi_thread_, which
  // answers questions while this rank is in no call.
  std::mutex mutex_;
  State state_;
  std::map<int, State> answers_;  // by rank
  bool failed_ = false, told_ = false, other_failed_ = false;
  std::deque<State> outbox_;  // control messages, which MPI may send later
  bool ending_ = false;
  std::atomic<bool> listening_ = false;  // MPI can be called
  std::shared_ptr<Phases> phases_ = std::make_shared<Phases>();
  std::thread mpi_thread_;
};

MpiCommunicator::MpiCommunicator(const MpiOptions& options) : options_(options) {
  const double seconds = std::max(options.deadline_seconds, options.start_seconds);
  core::check(options.deadline_seconds > 0 && seconds <= 1e9,
              "mpi_communicator: expected a deadline above 0 and time limits up to 1e9 s, got ",
              options.deadline_seconds, " and ", options.start_seconds);
  int initialized = 0;
  MPI_Initialized(&initialized);
  core::check(!initialized, "mpi_communicator: MPI has been initialised before");
  mpi_thread_ = std::thread([this, phases = phases_] { run_mpi(*phases); });
  if (!phases_->wait(phases_->initialised, seconds)) {
    mpi_thread_.detach();
    core::fail("mpi_communicator: not all ranks have started within ", seconds,
               " s: one is stopped or hanging");
  }
  try {
    check_mpi(phases_->status, "MPI_Init_thread");
    core::check(phases_->provided >= MPI_THREAD_SERIALIZED,
                "mpi_communicator: expected an MPI that more than one thread may call");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    listening_ = true;
    share_processors();
  } catch (...) {
    if (!listening_) failed_ = true;
    end_mpi();
    throw;
  }
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > 0) abort();
  try {
    if (!failed_) all_gather(*this, "", "its end");
  } catch (const Error&) {
    // This rank has finished its work, even if another rank has failed.
  }
  end_mpi();
  // mpirun ends all ranks when the first one has ended: leave the rank at fault time to report it.
  if (other_failed_) std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// Runs in mpi_thread_: MPI wants its first and its last call from one thread.
void MpiCommunicator::run_mpi(Phases& phases) {
  phases.status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &phases.provided);
  if (!phases.reach(phases.initialised)) return;
  answer_questions();
  const bool failed = failed_;
  phases.reach(phases.finalising);  // from here on the communicator may be gone
  if (!failed) MPI_Finalize();
  phases.reach(phases.ended);
}

void MpiCommunicator::end_mpi() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  phases_->wait(phases_->finalising, std::numeric_limits<int>::max());
  if (phases_->wait(phases_->ended, options_.deadline_seconds))
    mpi_thread_.join();
  else
    mpi_thread_.detach();
}

void MpiCommunicator::answer_questions() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    int there = listening_ && state_.waiting == 0 && !failed_;
    MPI_Status status;
    if (there) MPI_Iprobe(MPI_ANY_SOURCE, question, MPI_COMM_WORLD, &there, &status);
    if (!there) continue;
    State asked;
    MPI_Recv(&asked, sizeof asked, MPI_BYTE, status.MPI_SOURCE, question, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    control(status.MPI_SOURCE, answer, state_);
  }
}

/// Sets threads_: a rank that mpirun has bound to processors of its own takes those, others share.
void MpiCommunicator::share_processors() {
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  MPI_Get_processor_name(host, &length);
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::string processors;
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors += ' ' + std::to_string(i);
  const std::string own = std::string(host, static_cast<size_t>(length)) + '\n' + processors;
  const std::vector<std::string> all = all_gather(*this, own, "its processors");
  for (const std::string& other : all) hosts_.push_back(other.substr(0, other.find('\n')));
  const auto sharing = static_cast<int>(std::count(all.begin(), all.end(), own));
  threads_ = std::max(1, CPU_COUNT(&set) / sharing);
}

/// Returns the number of bytes per message between this rank and another, the same on both ranks.
size_t MpiCommunicator::message_size(int other) const {
  if (hosts_.empty()) return short_message;
  const bool near = hosts_[static_cast<size_t>(other)] == hosts_[static_cast<size_t>(rank_)];
  return near ? long_message : short_message;
}

void MpiCommunicator::all_to_all(const std::vector<SentPieces>& send,
                                 const std::vector<ReceivedPieces>& receive,
                                 const std::string& what) {
  core::check(std::ssize(send) == size_ && std::ssize(receive) == size_, "all_to_all: ", what,
              ": expected entries for ", size_, " ranks, got ", send.size(), " and ",
              receive.size());
  Transfers transfers;
  {
    const std::lock_guard lock(mutex_);
    ++state_.call;
    state_.waiting = 1;
    for (int i = 0; i < size_; ++i)
      for (const WritableBytes piece : receive[static_cast<size_t>(i)])
        if (i != rank_) transfers.receive(piece, i, message_size(i));
    for (int i = 0; i < size_; ++i)
      for (const Bytes piece : send[static_cast<size_t>(i)])
        if (i != rank_) transfers.send(piece, i, message_size(i));
  }
  bool complete = false;
  for (int deadlines = 0; !complete && deadlines < deadlines_of_the_living; ++deadlines) {
    complete = wait(transfers, options_.deadline_seconds, what);
    if (!complete && !others_live(transfers, what)) break;
  }
  if (!complete) give_up(transfers, what);
  const std::lock_guard lock(mutex_);
  state_.waiting = 0;
}

/// Returns whether all transfers were complete in time.
bool MpiCommunicator::wait(Transfers& transfers, double seconds, const std::string& what) {
  const Clock::time_point start = Clock::now();
  Clock::time_point called = start;
  Pause pause;
  while (true) {
    std::vector<int> missing;
    {
      const std::lock_guard lock(mutex_);
      if (failed_) throw OtherRankFailed("this rank has failed");
      if (transfers.complete()) return true;
      read_control();
      if (seconds_since(called) > 0.05) missing = transfers.missing();
    }
    if (seconds_since(start) > seconds) return false;
    if (!missing.empty()) {
      called = Clock::now();
      if (options_.while_waiting) options_.while_waiting(what, missing);
    }
    pause();
  }
}

/// Answers questions, and throws OtherRankFailed if a rank has failed.
void MpiCommunicator::read_control() {
  for (const Tag tag : {failure, question, answer}) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status);
    if (!there) continue;
    State state;
    MPI_Recv(&state, sizeof state, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (tag == question) control(status.MPI_SOURCE, answer, state_);
    if (tag == answer) answers_[status.MPI_SOURCE] = state;
    if (tag != failure) continue;
    failed_ = told_ = other_failed_ = true;
    throw OtherRankFailed("rank " + std::to_string(status.MPI_SOURCE) + " has failed");
  }
}

void MpiCommunicator::control(int to, Tag tag, const State& state) {
  outbox_.push_back(state);
  MPI_Request request;
  MPI_Isend(&outbox_.back(), sizeof state, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
}

bool MpiCommunicator::abort() noexcept {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  if (told_) return !other_failed_;
  // If all ranks meet the same error, rank 0 reports it: the other ranks wait for its report.
  told_ = true;
  const Clock::time_point start = Clock::now();
  int reported = 0;
  while (rank_ > 0 && !reported && seconds_since(start) < 0.3) {
    MPI_Iprobe(MPI_ANY_SOURCE, failure, MPI_COMM_WORLD, &reported, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < size_ && !reported; ++i)
    if (i != rank_) control(i, failure);
  for (int i = 0; i < 20; ++i) {  // the messages leave while MPI is being called
    int ignored = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, failure, MPI_COMM_WORLD, &ignored, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  other_failed_ = reported != 0;
  return !other_failed_;
}

/// Called when a wait has reached its deadline. Returns whether the data has arrived by now, or
/// whether all other ranks answer and at least one of them is not waiting.
bool MpiCommunicator::others_live(Transfers& transfers, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    answers_.clear();
    for (int i = 0; i < size_; ++i)
      if (i != rank_) control(i, question);
  }
  if (wait(transfers, time_to_answer, what)) return true;
  const std::lock_guard lock(mutex_);
  return static_cast<int>(answers_.size()) == size_ - 1 &&
         std::any_of(answers_.begin(), answers_.end(),
                     [](const auto& a) { return a.second.waiting == 0; });
}

/// Returns the ranks to name in the message: of the ranks that do not answer, those in `missing`,
/// or all if none is in `missing`. If all ranks answer, returns those that lag behind in the
/// earliest call, or `missing` if no rank lags behind.
std::vector<int> MpiCommunicator::at_fault(const std::vector<int>& missing) const {
  std::vector<int> silent, silent_and_missing, earliest;
  int64_t first_call = state_.call;
  for (const auto& [rank, state] : answers_) first_call = std::min(first_call, state.call);
  for (int i = 0; i < size_; ++i) {
    const auto found = answers_.find(i);
    if (i == rank_) continue;
    if (found != answers_.end()) {
      if (found->second.call == first_call && first_call < state_.call) earliest.push_back(i);
      continue;
    }
    silent.push_back(i);
    if (std::find(missing.begin(), missing.end(), i) != missing.end())
      silent_and_missing.push_back(i);
  }
  for (const std::vector<int>& ranks : {silent_and_missing, silent, earliest})
    if (!ranks.empty()) return ranks;
  return missing;
}

void MpiCommunicator::give_up(Transfers& transfers, const std::string& what) {
  std::vector<int> late;
  int reporter = rank_;  // the first rank that waits and is not at fault
  {
    const std::lock_guard lock(mutex_);
    late = at_fault(transfers.missing());
    for (const auto& [rank, state] : answers_)
      if (state.waiting == 1 && std::find(late.begin(), late.end(), rank) == late.end())
        reporter = std::min(reporter, rank);
  }
  std::ostringstream message;
  for (const int rank : late)
    message << (rank == late.front() ? "rank " : ", rank ") << rank << " ("
            << (hosts_.empty() ? "host unknown" : hosts_[static_cast<size_t>(rank)]) << ')';
  message << " did not send " << what << " within " << options_.deadline_seconds
          << " s: stopped, gone or hanging";
  if (reporter != rank_ && wait(transfers, time_to_report, what)) return;
  abort();
  throw Error(message.str());
}

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace gradus::optim

gradus::optim::Communicator* gradus_mpi_communicator(const gradus::optim::MpiOptions& options) {
  return gradus::optim::mpi_communicator(options).release();
}
