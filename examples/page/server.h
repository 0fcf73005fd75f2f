#pragma once
// A small web server for one page, on this machine only.

#include <functional>
#include <memory>
#include <string>

namespace gradus {

/// A reply to a request.
struct Reply {
  int status = 200;  ///< of HTTP
  std::string body = {};
  std::string type = "application/json";
};

/// Serves one page on 127.0.0.1, from threads of its own, at the system's lowest priority. Requests
/// by another name than localhost's, or sent by another site's page, are refused: such a page could
/// otherwise reach this one through its reader's browser.
class PageServer {
 public:
  /// Answers GET of "/" or "/data", whose argument is what follows "?since=", or POST of "/do" or
  /// "/ask", whose argument is the body, at most 64 KB of JSON. Called by several threads at a time.
  /// A thrown Error becomes a reply with status 400.
  using Handler = std::function<Reply(const std::string& path, const std::string& argument)>;
  /// Port 0: any free one. Throws Error if the port is in use.
  PageServer(int64_t port, Handler handler);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  /// "http://127.0.0.1:8080", for example.
  std::string address() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace gradus
