#include "examples/page/server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <semaphore>

#include "gradus/core/runtime/error.h"

namespace gradus {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr size_t most_connections = 12, threads = 4;  // connections: being served or waiting
constexpr size_t longest_request = 256 << 10, longest_body = 64 << 10;  // bytes
constexpr auto patience = 3s;  // with a client that sends no request, or reads no reply

/// One client's connection. It ends with a client that sends too much or is too slow.
class Connection : public httplib::Stream {
 public:
  Connection(int socket, const std::atomic<bool>& closing) : socket_(socket), closing_(closing) {}
  bool is_readable() const override { return begin_ < end_ || wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }
  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (left_ == 0 || !wait(POLLIN)) return -1;
      const ssize_t got = ::recv(socket_, buffer_, std::min(left_, sizeof buffer_), MSG_DONTWAIT);
      if (got <= 0) return got;
      begin_ = 0, end_ = static_cast<size_t>(got), left_ -= end_;
    }
    const size_t n = std::min(size, end_ - begin_);
    std::memcpy(to, buffer_ + begin_, n);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    if (!writing_) deadline_ = Clock::now() + patience;
    writing_ = true;
    for (size_t done = 0; done < size;) {
      if (!wait(POLLOUT)) return -1;
      // MSG_NOSIGNAL: a client that has gone raises no SIGPIPE, which would end the training.
      const ssize_t sent = ::send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += static_cast<size_t>(std::max<ssize_t>(sent, 0));
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = "127.0.0.1", port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    get_remote_ip_and_port(ip, port);
  }
  socket_t socket() const override { return socket_; }
  /// Reads and forgets what the client still sends: were the socket closed before, it might not see
  /// the reply.
  void finish() {
    if (!writing_) return;
    ::shutdown(socket_, SHUT_WR);
    deadline_ = Clock::now() + patience;
    while (wait(POLLIN) && ::recv(socket_, buffer_, sizeof buffer_, MSG_DONTWAIT) > 0) {
    }
  }

 private:
  bool wait(short event) const {
    pollfd one{socket_, event, 0};
    while (!closing_ && Clock::now() < deadline_)
      if (::poll(&one, 1, 100) > 0) return true;
    return false;
  }

  const int socket_;
  const std::atomic<bool>& closing_;
  Clock::time_point deadline_ = Clock::now() + patience;
  bool writing_ = false;
  size_t left_ = longest_request, begin_ = 0, end_ = 0;  // of the buffer: bytes not yet read
  char buffer_[16384];
};

/// Accepts no connections beyond most_connections: they would use up the files that this process
/// may open.
struct Workers : httplib::ThreadPool {
  std::counting_semaphore<most_connections> room{most_connections};
  Workers() : ThreadPool(threads) {}
  void enqueue(std::function<void()> serve) override {
    room.acquire();
    ThreadPool::enqueue([this, serve = std::move(serve)] {
      serve();
      room.release();
    });
  }
};

/// Restores the signals' handling and mask: httplib changes SIGPIPE's, and its threads are to get
/// none of the signals.
struct KeepSignals {
  struct sigaction pipe;
  sigset_t mask;
  KeepSignals() {
    sigset_t all;
    sigfillset(&all);
    ::sigaction(SIGPIPE, nullptr, &pipe);
    ::pthread_sigmask(SIG_SETMASK, &all, &mask);
  }
  ~KeepSignals() {
    ::sigaction(SIGPIPE, &pipe, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  }
};

void put(httplib::Response& response, Reply reply) {
  response.status = reply.status;
  response.set_content(std::move(reply.body), reply.type);
}

}  // namespace

class LocalServer : public httplib::Server {
 public:
  std::atomic<bool> closing = false;

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, closing);
    try {
      bool closed = false;
      process_request(connection, true, closed, [](httplib::Request& request) {
        request.headers.erase("Accept-Encoding");  // Brotli would take seconds of the processor
      });
      connection.finish();
    } catch (const std::exception&) {  // out of memory: this client alone goes without a reply
    }
    return ::close(socket) == 0;
  }
};

struct PageServer::Implementation {
  LocalServer server;
  int port = 0;
  Handler handler;
  std::thread thread;
};

namespace {

/// Why the request is refused; "" if it is not.
std::string refusal(const httplib::Request& request, int port) {
  const std::string at = ':' + std::to_string(port);
  const auto is_ours = [&](const std::string& host) {
    // Browsers leave out port 80.
    const std::string full = port == 80 && host.find(':') == std::string::npos ? host + at : host;
    return full == "127.0.0.1" + at || full == "localhost" + at;
  };
  if (request.get_header_value_count("Host") != 1 || !is_ours(request.get_header_value("Host")))
    return "refused: expected the host 127.0.0.1" + at;
  if (request.has_header("Origin")) {
    const std::string origin = request.get_header_value("Origin"), scheme = "http://";
    if (!origin.starts_with(scheme) || !is_ours(origin.substr(scheme.size())))
      return "refused: sent by another site's page";
  }
  // A range repeated often would multiply the reply.
  return request.has_header("Range") ? "refused: expected no Range" : "";
}

Reply guarded(const PageServer::Handler& handler, const std::string& path,
              const std::string& argument) {
  try {
    return handler(path, argument);
  } catch (const Error& error) {
    return {400, error.what(), "text/plain; charset=utf-8"};
  }
}

/// Whether there is a handler for the request. httplib would read, parse and decompress the body of
/// any other, without a limit.
bool is_served(const httplib::Request& q) {
  if (q.method == "POST") return q.path == "/do" || q.path == "/ask";
  return (q.method == "GET" || q.method == "HEAD") && (q.path == "/" || q.path == "/data");
}

void post(const PageServer::Handler& handler, const httplib::Request& request,
          httplib::Response& response, const httplib::ContentReader& content) {
  if (!request.get_header_value("Content-Type").starts_with("application/json"))
    return put(response, {415, "expected application/json", "text/plain"});
  std::string body;
  const bool complete = content([&](const char* data, size_t size) {
    body.append(data, size);
    return body.size() <= longest_body;
  });
  if (body.size() > longest_body)
    return put(response, {413, "expected at most 65536 bytes", "text/plain"});
  if (!complete) return put(response, {400, "expected the whole body", "text/plain"});
  put(response, guarded(handler, request.path, body));
}

}  // namespace

PageServer::PageServer(int64_t port, Handler handler) {
  const KeepSignals signals;
  implementation_ = std::make_unique<Implementation>();
  LocalServer& server = implementation_->server;
  implementation_->handler = std::move(handler);
  const Handler& answer = implementation_->handler;
  // Not SO_REUSEPORT, with which two programs can share a port.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [] { return new Workers; };
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_pre_routing_handler([this](const httplib::Request& q, httplib::Response& r) {
    const std::string why = refusal(q, implementation_->port);
    if (why.empty() && is_served(q)) return httplib::Server::HandlerResponse::Unhandled;
    put(r, why.empty() ? Reply{404, "no such page", "text/plain"} : Reply{403, why, "text/plain"});
    return httplib::Server::HandlerResponse::Handled;
  });
  for (const char* path : {"/", "/data"})
    server.Get(path, [&answer](const httplib::Request& q, httplib::Response& r) {
      put(r, guarded(answer, q.path, q.get_param_value("since")));
    });
  for (const char* path : {"/do", "/ask"})
    server.Post(path,
                [&answer](const httplib::Request& q, httplib::Response& r,
                          const httplib::ContentReader& content) { post(answer, q, r, content); });
  int& bound = implementation_->port;
  const char* const here = "127.0.0.1";
  if (port == 0)
    bound = server.bind_to_any_port(here);
  else
    bound = server.bind_to_port(here, static_cast<int>(port)) ? static_cast<int>(port) : -1;
  core::check(bound > 0, "port ", port, " of ", here, " is in use, or not allowed");
  implementation_->thread = std::thread([&server] {
    ::setpriority(PRIO_PROCESS, 0, 19);  // Linux: this thread's, and those it starts
    server.listen_after_bind();
  });
  while (!server.is_running()) std::this_thread::sleep_for(1ms);
}

PageServer::~PageServer() {
  implementation_->server.closing = true;
  implementation_->server.stop();
  implementation_->thread.join();
}

std::string PageServer::address() const {
  return "http://127.0.0.1:" + std::to_string(implementation_->port);
}

}  // namespace gradus
