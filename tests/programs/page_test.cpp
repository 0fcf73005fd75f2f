// The page of a run: its server against hostile clients, pausing, questions, changes of the
// learning rate, and that none of it changes a bit of the training.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmath>
#include <thread>

#include "examples/page/probes.h"
#include "examples/page/rate_by_hand.h"
#include "examples/page/run_page.h"
#include "examples/page/run_view.h"
#include "examples/page/server.h"
#include "examples/page/statistics.h"
#include "examples/pictures/html.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "tests/support/compare.h"
#include "tests/support/train_bench.h"

namespace page_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// A connection to a page.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  /// False if the server has closed the connection.
  bool send(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  /// Sends no more, but may still receive.
  void end() const { ::shutdown(socket_, SHUT_WR); }
  /// All that the server sends until it closes the connection.
  std::string reply() const {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(socket_, buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<size_t>(n));
    return all;
  }
  bool connected;

 private:
  int socket_;
};

std::string request(int port, const std::string& text) {
  const Client client(port);
  if (client.connected) client.send(text);
  return client.connected ? client.reply() : "";
}

std::string host(int port) { return "Host: 127.0.0.1:" + std::to_string(port) + "\r\n"; }

std::string get(int port, const std::string& path) {
  return request(port, "GET " + path + " HTTP/1.1\r\n" + host(port) + "\r\n");
}

std::string post(int port, const std::string& path, const std::string& body,
                 const std::string& headers = "") {
  return request(port, "POST " + path + " HTTP/1.1\r\n" + host(port) + headers +
                           "Content-Type: application/json\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body);
}

int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.1 ") ? std::stoi(reply.substr(9, 3)) : 0;
}

std::string body_of(const std::string& reply) {
  const size_t at = reply.find("\r\n\r\n");
  return at == std::string::npos ? "" : reply.substr(at + 4);
}

int port_in(const std::string& line) {
  const std::string mark = "http://127.0.0.1:";
  const size_t at = line.rfind(mark);
  return at == std::string::npos ? 0 : std::stoi(line.substr(at + mark.size()));
}

/// A server that answers with what it was asked.
struct Echo {
  PageServer server{0, [](const std::string& path, const std::string& argument) {
                      core::check(argument != "throw", "thrown on purpose");
                      return Reply{200, path + '|' + argument};
                    }};
  int port = port_in(server.address());
};

/// A run with a page, whose port is read from its output.
struct PagedRun {
  Process process;
  int port = 0;
  PagedRun(const std::string& program, const std::string& flags)
      : process(program, flags + " --page 0") {
    REQUIRE(process.read_until("page   http://127.0.0.1:"));
    REQUIRE(process.read_until("\nstep "));
    port = port_in(process.output());
  }
  Json data() const { return Json::parse(body_of(get(port, "/data?since="))); }
  /// Waits until a test of the page's state holds.
  template <class Test>
  bool wait_until(Test&& test) const {
    for (int i = 0; i < 600; ++i) {
      if (test(data())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
};

const std::vector<std::string> same_files{"/model.safetensors", "/loss.csv",
                                          "/best/model.safetensors"};

void check_same_run(const Bench& bench, const std::string& a, const std::string& b) {
  for (const std::string& file : same_files) CHECK(bench.file(a + file) == bench.file(b + file));
  CHECK(bench.rows(a + "/steps.csv", true) == bench.rows(b + "/steps.csv", true));
}

}  // namespace

TEST_CASE("a page's server answers requests", "[page]") {
  const Echo echo;
  CHECK(body_of(get(echo.port, "/")) == "/|");
  CHECK(body_of(get(echo.port, "/data?since=7:2")) == "/data|7:2");
  CHECK(body_of(request(echo.port, "GET / HTTP/1.1\r\n" + host(echo.port) +
                                       "Accept-Encoding: gzip, br\r\n\r\n")) == "/|");
  CHECK(body_of(post(echo.port, "/ask", "{}")) == "/ask|{}");
  const std::string thrown = post(echo.port, "/do", "throw");
  CHECK(status_of(thrown) == 400);
  CHECK(body_of(thrown) == "thrown on purpose");
  CHECK(status_of(get(echo.port, "/nothing")) == 404);
  CHECK(status_of(get(echo.port, "/do")) == 404);  // a GET changes nothing
}

TEST_CASE("a page's server refuses other sites and hosts", "[page]") {
  const Echo echo;
  const std::string port = std::to_string(echo.port);
  const auto from_host = [&](const std::string& name) {
    return status_of(request(echo.port, "GET / HTTP/1.1\r\nHost: " + name + "\r\n\r\n"));
  };
  CHECK(from_host("127.0.0.1:" + port) == 200);
  CHECK(from_host("localhost:" + port) == 200);
  for (const std::string& name : std::vector<std::string>{
           "rebound.example:" + port, "127.0.0.1", "127.0.0.1:" + port + ".example", "localhost:1"})
    CHECK(from_host(name) == 403);
  CHECK(status_of(request(echo.port, "GET / HTTP/1.1\r\n\r\n")) == 403);
  CHECK(status_of(request(echo.port, "GET / HTTP/1.1\r\n" + host(echo.port) +
                                         "Host: rebound.example\r\n\r\n")) == 403);
  const auto from_origin = [&](const std::string& origin) {
    return status_of(post(echo.port, "/do", "{}", "Origin: " + origin + "\r\n"));
  };
  CHECK(from_origin("http://127.0.0.1:" + port) == 200);
  CHECK(from_origin("http://localhost:" + port) == 200);
  for (const std::string& origin :
       std::vector<std::string>{"http://elsewhere.example", "null", "https://127.0.0.1:1"})
    CHECK(from_origin(origin) == 403);
  // What a form on another site can send without asking first.
  CHECK(status_of(request(echo.port,
                          "POST /do HTTP/1.1\r\n" + host(echo.port) +
                              "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")) == 415);
}

TEST_CASE("a page's server survives hostile clients", "[page]") {
  const Echo echo;
  // Half a request, never finished, from more clients than there are threads.
  std::vector<std::unique_ptr<Client>> half;
  for (int i = 0; i < 6; ++i) {
    half.push_back(std::make_unique<Client>(echo.port));
    half.back()->send("GET / HT");
  }
  CHECK(status_of(get(echo.port, "/")) == 200);  // once they have been given up
  CHECK(half[0]->reply() == "");                 // closed, not kept
  // 100 MB posted, with and without an honest length; then a header line without an end.
  const std::string huge(100'000'000, 'x');
  CHECK(status_of(post(echo.port, "/ask", huge)) == 413);
  CHECK(status_of(post(echo.port, "/ask", huge.substr(0, 65537))) == 413);
  CHECK(status_of(post(echo.port, "/ask", huge.substr(0, 65536))) == 200);
  // A body that ends before its length, from a client that still reads.
  for (const char* body : {"", "cut"}) {
    const Client cut(echo.port);
    cut.send("POST /ask HTTP/1.1\r\n" + host(echo.port) +
             "Content-Type: application/json\r\nContent-Length: 40\r\n\r\n" + body);
    cut.end();
    const std::string reply = cut.reply();
    CHECK(status_of(reply) == 400);
    CHECK_THAT(reply, Contains("expected the whole body"));
  }
  const Client endless(echo.port);
  endless.send("GET /" + huge);
  CHECK(status_of(endless.reply()) != 200);
  for (const char* nonsense : {"\r\n\r\n", "\0\0\0\0", "GET\r\n\r\n", "POST /ask HTTP/9\r\n\r\n"})
    request(echo.port, nonsense);
  CHECK(status_of(request(echo.port, "GET / HTTP/1.1\r\n" + host(echo.port) +
                                         "Range: bytes=0-,0-,0-\r\n\r\n")) == 403);
  // A form whose headers would be parsed by a regular expression, recursively.
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"" + huge.substr(0, 200'000) + "\r\n\r\n";
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"})
    CHECK(status_of(request(
              echo.port, method + " /other HTTP/1.1\r\n" + host(echo.port) +
                             "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: " +
                             std::to_string(form.size()) + "\r\n\r\n" + form)) == 404);
  CHECK(status_of(get(echo.port, "/")) == 200);
}

TEST_CASE("a page refuses questions about texts whose attention would take gigabytes", "[page]") {
  const models::CharTokenizer tokens("a", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  const models::GPT gpt({.vocab = 6, .context = 2000, .layers = 1, .heads = 2, .dim = 4});
  const models::Bert bert({.vocab = 6, .context = 2000, .layers = 1, .heads = 2, .dim = 4});
  const Question longer{.text = std::string(1449, 'a')};
  const std::string why =
      "the page shows this model's attention to texts of up to 1448 tokens, got 1449";
  CHECK_THROWS_WITH(probe(gpt, tokens, longer), why);
  CHECK_THROWS_WITH(probe(bert, tokens, longer), why);
  CHECK_NOTHROW(expect_short(1448, 2));
}

TEST_CASE("a page refuses questions about long targets, and about long texts of an RNN", "[page]") {
  const models::CharTokenizer tokens("a", {"[PAD]", "[UNK]", "[START]", "[END]"});
  const models::Transformer transformer(
      {.source_vocab = 5, .target_vocab = 5, .context = 2000, .layers = 1, .heads = 2, .dim = 4});
  const models::RNNTranslator rnn(
      {.source_vocab = 5, .target_vocab = 5, .context = 2100, .dim = 4, .hidden = 4});
  const NoGrad no_grad;
  const EvalMode eval;
  const std::string longer(1449, 'a'), longest(2049, 'a');
  CHECK_THROWS_WITH(probe(transformer, tokens, {.text = "a", .target = longer}),
                    Contains("texts of up to 1448 tokens, got 1449"));
  const std::string why = "texts of up to 2048 tokens, got ";
  CHECK_THROWS_WITH(probe(rnn, tokens, {.text = longest, .target = "a"}), Contains(why + "2049"));
  CHECK_THROWS_WITH(probe(rnn, tokens, {.text = "a", .target = longest}), Contains(why + "2049"));
  // A translation of its own that does not end.
  rnn.head.bias.select(0, tokens.special("[END]")).fill_(-1e9);
  CHECK_THROWS_WITH(probe(rnn, tokens, {.text = "a"}), Contains(why + "2099"));
  CHECK(Json::parse(probe(rnn, tokens, {.text = "aa", .target = "a"}))["kind"] == "text");
}

TEST_CASE("an RNN's context limits the target alone", "[page]") {
  const models::CharTokenizer tokens("a", {"[PAD]", "[UNK]", "[START]", "[END]"});
  const models::RNNTranslator rnn(
      {.source_vocab = 5, .target_vocab = 5, .context = 4, .dim = 4, .hidden = 4});
  const NoGrad no_grad;
  const AttentionOf seen = attention_of(rnn, tokens, {.text = "aaaaaa", .target = "aaa"});
  CHECK(seen.groups[0].keys.size() == 6);
  CHECK_THROWS_WITH(attention_of(rnn, tokens, {.text = "a", .target = "aaaa"}),
                    "target: expected at most 3 tokens, got 4");
}

TEST_CASE("a page's server says that its port is in use", "[page]") {
  const Echo echo;
  const auto handler = [](const std::string&, const std::string&) { return Reply{}; };
  CHECK_THROWS_WITH(PageServer(echo.port, handler),
                    Contains("port " + std::to_string(echo.port)) && Contains("in use"));
  const Bench bench;
  const Result run_beside = run(
      "train_gpt", bench.flags + bench.out() + " --steps 3 --page " + std::to_string(echo.port));
  CHECK(run_beside.status == 0);
  CHECK_THAT(run_beside.output, Contains("no page: port") && Contains("goes on without it"));
}

TEST_CASE("a page changes no bit of the training", "[page]") {
  const Bench bench;
  const std::string flags = bench.flags + " --steps 4000 --eval-every 1000 --sample-every 1500";
  REQUIRE(run("train_gpt", flags + bench.out("plain")).status == 0);
  PagedRun paged("train_gpt", flags + bench.out("paged"));
  REQUIRE(status_of(post(paged.port, "/do", R"({"do":"pause"})")) == 200);
  REQUIRE(paged.wait_until([](const Json& d) { return d["state"]["paused"].get<bool>(); }));
  const int64_t at = paged.data()["state"]["step"];
  CHECK(at < 4000);
  CHECK(status_of(post(paged.port, "/do", R"({"do":"step"})")) == 200);
  CHECK(paged.wait_until([&](const Json& d) { return d["state"]["step"] == at + 1; }));
  CHECK(paged.data()["state"]["paused"] == true);
  const Json answer = Json::parse(body_of(post(paged.port, "/ask", R"({"text":"line 7","at":2})")));
  CHECK(answer["lens"].size() == 2);  // the embedding and one block
  CHECK(answer["next"]["at"] == 2);
  CHECK(answer["groups"][0]["weights"][0].size() == 2);  // heads
  for (const char* bad : {"", "[]", R"({"text":7})", R"({"text":"~"})", R"({"text":"a","at":9})",
                          R"({"text":"a","at":1e99})", R"({"text":"\u0000"})",
                          R"({"text":"line 7","at":18446744073709551615})"})
    CHECK(status_of(post(paged.port, "/ask", bad)) == 400);
  for (const char* bad :
       {"{}", R"({"do":"stop"})", R"({"do":"rate"})", R"({"do":"rate","factor":-1})",
        R"({"do":"rate","factor":1e9})", R"({"do":7})"})
    CHECK(status_of(post(paged.port, "/do", bad)) == 400);
  CHECK(status_of(post(paged.port, "/do", R"({"do":"resume"})")) == 200);
  // Readers that die: in the middle of a reply, of a question, of a header.
  for (int i = 0; i < 40; ++i) {
    Client(paged.port).send("GET / HTTP/1.1\r\n" + host(paged.port) + "\r\n");
    Client(paged.port).send("POST /ask HTTP/1.1\r\n" + host(paged.port) + "Content-Len");
  }
  const Result result = paged.process.finish();
  INFO(result.output);
  REQUIRE(result.status == 0);
  check_same_run(bench, "plain", "paged");
  const std::string saved = bench.file("paged/page.html");
  CHECK_THAT(saved, Contains("\"sample\":") && Contains("\"ratio\":") && Contains("\"lens\":"));
  CHECK_THAT(saved, !Contains("http:") && !Contains("https:") && !Contains("src="));
}

TEST_CASE("a learning rate changed by hand is part of what resumes", "[page]") {
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 500 --decay-steps 100000";
  const std::string change = R"({"do":"rate","factor":0.5,"at":4200})";
  {
    PagedRun part("train_gpt", flags + " --steps 1000000" + bench.out("part"));
    REQUIRE(Json::parse(body_of(post(part.port, "/do", change)))["step"] < 4000);
    REQUIRE(part.process.read_until("by hand: from step 4200 the learning rate is 0.5 times"));
    REQUIRE(part.process.read_until("step 4500 train"));
    part.process.finish(SIGKILL);
  }
  const int64_t steps = bench.checkpoint_step("part") + 300;
  CHECK(bench.metadata("part").at("rate_by_hand") == "4200:0.5");
  const std::string to = " --steps " + std::to_string(steps);
  REQUIRE(run("train_gpt", "--resume" + to + bench.out("part")).status == 0);
  PagedRun whole("train_gpt", flags + to + bench.out("whole"));
  REQUIRE(Json::parse(body_of(post(whole.port, "/do", change)))["step"] < 4000);
  REQUIRE(whole.process.finish().status == 0);
  check_same_run(bench, "part", "whole");
  const Rows rows = bench.rows("whole/steps.csv");
  CHECK(rows[4199][2] / rows[4198][2] == Approx(0.5).epsilon(0.01));
}

TEST_CASE("view_run serves finished runs", "[page]") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + bench.out("a") + " --steps 20 --page 0").status == 0);
  REQUIRE(run("train_gpt", bench.flags + bench.out("b") + " --steps 30").status == 0);
  Process process("view_run", "'" + (bench / "a") + "' '" + (bench / "b") + "' --port 0 2>&1");
  REQUIRE(process.read_until("Ctrl-C"));
  const int port = port_in(process.output());
  const auto data = [&](const std::string& since) {
    return Json::parse(body_of(get(port, "/data?since=" + since)));
  };
  const Json all = data("");
  CHECK(all["state"]["controls"] == false);
  const auto rows = [](const Json& run) {
    int count = 0;
    for (const Json& event : run["events"]) count += event.contains("row");
    return count;
  };
  CHECK(rows(all["runs"][0]) == 20);
  CHECK(rows(all["runs"][1]) == 30);
  const Json later = data(all["runs"][0]["next"].get<std::string>());
  CHECK(later["runs"][0]["events"].empty());
  CHECK(rows(later["runs"][1]) == 30);
  CHECK(status_of(post(port, "/do", R"({"do":"pause"})")) == 403);
  const std::string first = body_of(post(port, "/ask", R"({"text":"line"})"));
  CHECK(Json::parse(first)["kind"] == "text");
  CHECK(body_of(post(port, "/ask", R"({"text":"line","run":0})")) == first);
  const std::string second = body_of(post(port, "/ask", R"({"text":"line","run":1})"));
  CHECK(Json::parse(second)["kind"] == "text");
  CHECK(second != first);  // ten steps later
  for (const char* wrong : {"2", "-1", "0.5", "\"b\""})
    CHECK(status_of(post(port, "/ask", std::string(R"({"text":"line","run":)") + wrong + "}")) ==
          400);
  // The model changes: the next answer is the new one's. While it cannot be read, there is none.
  const auto ask_first = [&] { return body_of(post(port, "/ask", R"({"text":"line"})")); };
  const auto copy = [&](const std::string& from, const std::string& to) {
    write_file_atomically(bench / to, read_file(bench / from));
  };
  write_file_atomically(bench / "a/config.json", "{");
  copy("b/model.safetensors", "a/model.safetensors");
  CHECK(Json::parse(ask_first())["kind"] == "none");
  copy("b/config.json", "a/config.json");
  CHECK(ask_first() == second);
  // The folder vanishes: what was read stays, and a line says so.
  std::filesystem::remove_all(bench / "a");
  Json gone;
  for (int i = 0; i < 300 && (gone = data(""))["runs"][0]["note"] == ""; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_THAT(gone["runs"][0]["note"].get<std::string>(), Contains("cannot be read any more"));
  CHECK(rows(gone["runs"][0]) == 20);
  CHECK(process.finish(SIGINT).status == 0);
  const Result none = run("view_run", "'" + (bench / "a") + "'");
  CHECK(none.status == 1);
  CHECK_THAT(none.output, Contains("holds no run"));
}

namespace {

/// The page of two runs, of which the first has two events.
struct TwoRuns {
  RunView first{"a"}, second{"b"};
  RunPage page{{.port = 0, .title = "<t>", .loss = "nats", .steps = 9, .controls = true},
               {&first, &second}};
  int port = port_in(page.address());
  TwoRuns() {
    first.add_sample(1, "x");
    first.add_sample(2, "y");
    second.add_sample(3, "z");
  }
  int control(const std::string& body) const { return status_of(post(port, "/do", body)); }
  Json data(const std::string& since = "") const {
    return Json::parse(body_of(get(port, "/data?since=" + since)));
  }
};

std::string no_answer(const Question&) { return "null"; }

}  // namespace

TEST_CASE("a page's changes of the learning rate begin at the next step or later", "[page]") {
  TwoRuns runs;
  CHECK(runs.page.answer(5, no_answer).empty());
  CHECK(runs.control(R"({"do":"rate","factor":2})") == 200);
  CHECK(runs.control(R"({"do":"rate","factor":0,"at":3})") == 200);  // in the past
  CHECK(runs.control(R"({"do":"rate","factor":1000,"at":9})") == 200);
  for (const char* bad : {R"({"do":"rate","factor":1000.5})", R"({"do":"rate","factor":-0.5})",
                          R"({"do":"rate","factor":"2"})", R"({"do":"rate","factor":2,"at":1.5})"})
    CHECK(runs.control(bad) == 400);
  const std::vector<RunPage::Rate> rates = runs.page.answer(6, no_answer);
  REQUIRE(rates.size() == 3);
  const double factors[] = {2, 0, 1000};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(rates[i].step == (i < 2 ? 7 : 9));
    CHECK(rates[i].factor == factors[i]);
  }
  CHECK(runs.page.answer(7, no_answer).empty());
  runs.page.set_rates("7:0 9:1000");
  CHECK(runs.data()["state"]["rates"] == "7:0 9:1000");
}

TEST_CASE("a page pauses a run at the step that was asked for, and counts the time", "[page]") {
  TwoRuns runs;
  runs.page.answer(6, no_answer);
  REQUIRE(runs.control(R"({"do":"pause","at":8})") == 200);
  runs.page.answer(7, no_answer);
  CHECK(runs.page.paused_seconds() == 0);
  Json paused;
  std::thread reader([&] {
    for (int i = 0; i < 3000 && !(paused = runs.data()["state"])["paused"].get<bool>(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    runs.control(R"({"do":"resume"})");
  });
  runs.page.answer(8, no_answer);
  reader.join();
  CHECK(runs.page.paused_seconds() >= 0.05);
  CHECK(runs.page.paused_seconds() == 0);
  CHECK(paused == Json::parse(R"({"step": 8, "steps": 9, "paused": true, "controls": true,
                                  "title": "<t>", "loss": "nats", "rates": ""})"));
  CHECK(runs.data()["state"]["paused"] == false);
  runs.page.answer(9, no_answer);  // does not pause again
  CHECK(runs.page.paused_seconds() == 0);
}

TEST_CASE("a page's questions wait while they would take too much of the time", "[page]") {
  TwoRuns runs;
  CHECK(runs.page.affordable(0.01));
  runs.page.spent(1000);
  CHECK(!runs.page.affordable(0.01));
  std::vector<Question> asked;
  const RunPage::Probe probe = [&](const Question& question) {
    asked.push_back(question);
    return std::string("{\"answer\":1}");
  };
  std::string reply;
  std::thread reader(
      [&] { reply = post(runs.port, "/ask", R"({"text":"t","target":"u","at":4,"run":1})"); });
  for (int i = 0; i < 30; ++i) {
    runs.page.answer(1, probe);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(asked.empty());
  for (int i = 0; i < 3000 && asked.empty(); ++i) {
    runs.page.answer(1, probe, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  reader.join();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].text == "t");
  CHECK(asked[0].target == "u");
  CHECK(asked[0].at == 4);
  CHECK(asked[0].run == 1);
  CHECK(body_of(reply) == "{\"answer\":1}");
}

TEST_CASE("a page's data: a cursor for each run, and all of it when the page is saved", "[page]") {
  const TwoRuns runs;
  const Json all = runs.data();
  const std::string first = all["runs"][0]["next"], second = all["runs"][1]["next"];
  const auto events = [&](const std::string& since) {
    const Json data = runs.data(since);
    return std::pair(data["runs"][0]["events"].size(), data["runs"][1]["events"].size());
  };
  CHECK(events("") == std::pair<size_t, size_t>(2, 1));
  CHECK(events(first) == std::pair<size_t, size_t>(0, 1));
  CHECK(events("," + second) == std::pair<size_t, size_t>(2, 0));
  CHECK(events(first + ',' + second) == std::pair<size_t, size_t>(0, 0));
  CHECK(all["runs"][1]["name"] == "b");
  const std::string saved = runs.page.saved(R"({"kind":"none"})");
  CHECK_THAT(saved, Contains(R"("answer":{"kind":"none"})") && Contains("&lt;t>") &&
                        Contains(R"("sample":"z")"));
  for (const char* none : {"", "{", "no JSON"})
    CHECK_THAT(runs.page.saved(none), Contains("\"answer\":null"));
}

TEST_CASE("a view reads a run's estimates with their scores, up to a step", "[page]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "steps.csv",
                        "step,loss,lr,grad_norm,seconds\n1,2,0.1,nan,0.5\nx,1,1,1,1\n1,2\n"
                        "6,1,0.1,1,2\n7,1,0.1,1,3\n6,1,0.1,1,4");
  write_file_atomically(folder / "loss.csv",
                        "step,train_loss,val_loss,accuracy\n0,4,3,0.5\n5,3,2.5,nan\n10,2,2,0.75\n");
  write_file_atomically(folder / "page.jsonl",
                        "{\"step\":5,\"sample\":\"x\"}\n{\"step\":6,\"layers\":[1]}\nno JSON\n"
                        "{\"sample\":\"y\"}\n{\"step\":7,\"sample\":\"z\"}\n");
  RunView view(folder.path.string());
  view.read(6);
  Json expected = Json::parse(R"([
      {"row": [1, 2, 0.1, null, 0.5]}, {"row": [6, 1, 0.1, 1, 2]},
      {"estimate": [0, 4, 3], "more": {"accuracy": 0.5}},
      {"estimate": [5, 3, 2.5], "more": {"accuracy": null}},
      {"step": 5, "sample": "x"}, {"step": 6, "layers": [1]}])");
  CHECK(Json::parse(view.since("", 100))["events"] == expected);
  view.add(LossLog::Row{10, 2, 1.5, {{"accuracy", 1}}});
  expected.push_back(Json::parse(R"({"estimate": [10, 2, 1.5], "more": {"accuracy": 1}})"));
  CHECK(Json::parse(view.since("", 100))["events"] == expected);

  view.refresh();  // the first time: reads all
  const Json whole = Json::parse(view.since("", 100));
  CHECK(whole["events"].size() == 9);
  view.refresh();
  CHECK(Json::parse(view.since("", 100)) == whole);
  write_file_atomically(folder / "loss.csv", "step,train_loss,val_loss\n0,4,3\n");
  view.refresh();
  const Json changed = Json::parse(view.since("", 100));
  CHECK(changed["events"].size() == 7);
  CHECK(changed["generation"] != whole["generation"]);
}

TEST_CASE("a view of a run: events, cursors, and rows of long runs", "[page]") {
  const TemporaryFolder folder;
  RunView view(folder.path.string());
  view.add(StepLog::Row{1, 2.5, 0.1, std::nan(""), 0.5});
  view.add_sample(1, "</script>\xff\n");
  const Json first = Json::parse(view.since("", 100));
  REQUIRE(first["events"].size() == 2);
  CHECK(first["events"][0]["row"] == Json::parse("[1, 2.5, 0.1, null, 0.5]"));
  CHECK(first["events"][1]["sample"] == "</script>\xef\xbf\xbd\n");
  const std::string next = first["next"];
  CHECK(Json::parse(view.since(next, 100))["events"].empty());
  CHECK(Json::parse(view.since("", 1))["more"] == true);
  for (const char* bad : {"x", ":", "1:-5", ":::", "9999999999999999999999:1"})
    CHECK(Json::parse(view.since(bad, 100))["events"].size() == 2);
  const size_t colon = next.find(':');
  CHECK(Json::parse(view.since(next.substr(0, colon) + ":-5", 100))["events"].empty());
  view.flush();
  RunView read(folder.path.string());
  read.read(1);
  CHECK(Json::parse(read.since("", 100))["events"][0]["sample"] == first["events"][1]["sample"]);
  read.read(0);  // a run resumed before the sample
  CHECK(Json::parse(read.since("", 100))["events"].empty());
  for (int64_t step = 2; step <= 130000; ++step) view.add(StepLog::Row{step, 1, 1, 1, 1});
  const Json many = Json::parse(view.since(next, 1000000));
  CHECK(many["generation"] != first["generation"]);
  CHECK(many["events"].size() < 60002);
  CHECK(many["events"].size() > 30000);
  CHECK(many["events"].back()["row"][0] == 130000);
}

TEST_CASE("changes of the learning rate by hand as text", "[page]") {
  RateByHand changes;
  changes.change(101, 0.1);
  changes.change(201, 2);
  const RateByHand again = RateByHand::from_text(changes.text(), "");
  for (const auto& [step, factor] :
       std::vector<std::pair<int64_t, double>>{{1, 1}, {100, 1}, {101, 0.1}, {200, 0.1}, {201, 2}})
    CHECK(again.factor(step) == factor);
  for (const char* bad : {"7", ":", "7:", ":1", "0:1", "5:-1", "5:nan", "5:1:2", "x:1"})
    CHECK_THROWS_WITH(RateByHand::from_text(bad, "FILE"), Contains("FILE: expected STEP:FACTOR"));
}

TEST_CASE("statistics of layers", "[page]") {
  // 1 is 2^0: bin 25. 0.75 is in [2^-1, 1): bin 24.
  const auto counts =
      magnitudes(from_data(std::vector<float>{1, -1, 0.75F, 0, 1e-30F, 1e30F}, {6}));
  CHECK(counts[25] == 2);
  CHECK(counts[24] == 1);
  CHECK(counts[0] == 2);
  CHECK(counts[31] == 1);
  nn::Linear layer(2, 2);
  const NoGrad no_grad;
  layer.weight.copy_(from_data(std::vector<float>{3, 4, 0, 0}, {2, 2}));
  const LayerStatistics statistics(layer);
  layer.weight.add_(from_data(std::vector<float>{0, 0, 0.3F, 0.4F}, {2, 2}));
  const Json taken = Json::parse(statistics.take({{"out", ones({3})}}));
  REQUIRE(taken.size() == 2);  // the bias is no matrix
  CHECK(taken[0]["name"] == "weight");
  CHECK(taken[0]["ratio"].get<double>() == Approx(0.1));  // 0.5 / 5
  CHECK(taken[1]["activations"][25] == 3);
}

TEST_CASE("a GPT's hidden states end in its logits", "[page]") {
  manual_seed(3);
  const models::GPT model({.vocab = 11,
                           .context = 8,
                           .layers = 3,
                           .heads = 2,
                           .dim = 8,
                           .positions = models::Positions::sinusoidal,
                           .value_shortcut = true,
                           .embedding_shortcut = true,
                           .logit_cap = 5,
                           .bigram = true,
                           .token_shift = true});
  const models::GPT learned({.vocab = 11, .context = 8, .layers = 2, .heads = 2, .dim = 8});
  const NoGrad no_grad;
  model.bigram.copy_(randn({11, 11}));
  model.stream_mix.copy_(randn({2}));
  model.embedding_mix.copy_(randn({2}));
  const Tensor ids = from_data(std::vector<int64_t>{1, 5, 3, 0, 10, 7}, {1, 6});
  for (const models::GPT* m : {&model, &learned}) {
    const auto states = hidden_states(*m, ids);
    REQUIRE(std::ssize(states) == m->config.layers + 1);
    CHECK(gradus::testing::difference(logits_of(*m, states.back(), ids), (*m)(ids)) < 1e-6);
  }
}

TEST_CASE("an answer about a GPT, with tokens only as text", "[page]") {
  manual_seed(4);
  const models::CharTokenizer tokens("<script>alert('&')</script>");
  const models::GPT model(
      {.vocab = tokens.vocab_size() + 2, .context = 32, .layers = 1, .heads = 2, .dim = 8});
  const NoGrad no_grad;
  const Json answer = Json::parse(probe(model, tokens, {.text = "</script>"}));
  CHECK(answer["next"]["at"] == 8);
  CHECK(answer["next"]["logits"].size() == static_cast<size_t>(tokens.vocab_size() + 2));
  const std::vector<double> logits = answer["next"]["logits"];
  CHECK(std::is_sorted(logits.rbegin(), logits.rend()));
  const Tensor ids = from_data(tokens.encode("</script>"), {1, 9});
  CHECK(logits[0] == Approx(max(model(ids)[0][8]).item()).margin(6e-4));
  CHECK(answer["lens"][1].size() == 9);
  const std::string page =
      filled_page("<title>@title@</title><script>@data@</script>", "a<b", escaped_json(answer));
  CHECK(page.find("</script>") == page.rfind("</script>"));
  CHECK_THROWS_WITH(probe(model, tokens, {.text = "a", .at = 1}), Contains("from 0 to 0"));
}

TEST_CASE("an answer about images: the most confident mistakes first", "[page]") {
  const NoGrad no_grad;
  const Tensor images = zeros({3, 1, 2, 2});
  images.select(0, 1).fill_(1);
  const Classified classified{.images = images,
                              .labels = from_data(std::vector<int64_t>{0, 1, 0}, {3}),
                              .logits = from_data(std::vector<float>{0, 1, 9, 0, 5, 0}, {3, 2}),
                              .maps = ones({3, 1, 1}),
                              .class_names = {"<b>", "b"}};
  const Json answer = Json::parse(probe(classified));
  CHECK(answer["accuracy"].get<double>() == Approx(1 / 3.0));
  REQUIRE(answer["mistakes"].size() == 2);
  CHECK(answer["mistakes"][0]["pixels"] == "ffffffff");  // the one with logits 9, 0
  CHECK(answer["mistakes"][1]["chances"][1].get<double>() ==
        Approx(1 / (1 + std::exp(-1.0))).margin(6e-4));
  CHECK(answer["first"].size() == 3);
  CHECK(answer["first"][0]["map"] == Json::parse("[1.0]"));
}

}  // namespace page_test
