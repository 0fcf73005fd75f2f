#pragma once
// A small web server for one page, which is reachable from this machine only.

#include <functional>
#include <memory>
#include <string>

namespace gradus {

/// A reply to a request.
struct Reply {
  int status = 200;  ///< HTTP status
  std::string body = {};
  std::string type = "application/json";
};

/// Serves one page on 127.0.0.1, in threads of the system's lowest priority. Refuses a request if
/// it has a Range header, if its Host is not 127.0.0.1 or localhost with this port, or if its
/// Origin is another site. The checks of Host and Origin keep other sites from reaching this server
/// through the user's browser.
class PageServer {
 public:
  /// Returns the reply to a request. For a GET request, `path` is "/" or "/data", and `argument` is
  /// the query parameter `since`, or "" without one. For a POST request, `path` is "/do" or "/ask",
  /// and `argument` is the body (at most 64 KB, sent as application/json). Must be thread-safe. If
  /// the handler throws Error, the reply has status 400.
  using Handler = std::function<Reply(const std::string& path, const std::string& argument)>;
  /// Starts the server. Port 0 means any free port. Throws Error if the port is in use or not
  /// allowed.
  PageServer(int64_t port, Handler handler);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  /// Returns the address, for example "http://127.0.0.1:8080".
  std::string address() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace gradus
