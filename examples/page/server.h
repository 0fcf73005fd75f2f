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

/// Serves one page on 127.0.0.1, with separate threads at the system's lowest priority. Requests
/// are refused if they name a host other than localhost or come from another site's page. Such a
/// page could otherwise reach this server through the browser of the page's reader.
class PageServer {
 public:
  /// Answers a request. It is GET of "/" or "/data", with the text after "?since=" as argument, or
  /// POST of "/do" or "/ask", with the body (JSON of at most 64 KB) as argument. Several threads
  /// may call it at the same time. If it throws Error, the reply has status 400.
  using Handler = std::function<Reply(const std::string& path, const std::string& argument)>;
  /// Starts the server. Port 0 means any free port. Throws Error if the port is in use.
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
