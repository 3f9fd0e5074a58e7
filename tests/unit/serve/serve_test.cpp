// The what-if server over the loopback interface: its answers and refusals.
#include "stepcast/serve/serve.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "serve/request.h"
#include "serve/watch.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using nlohmann::json;

namespace {

serve::Options options_of(int port = 0) {
  serve::Options options;
  options.config = "llama8b-fsdp";
  options.data = text::data_directory();
  options.port = port;
  return options;
}

// One server shared by all tests.
class Served {
 public:
  Served() : server_(options_of()), thread_([this] { server_.run(); }) {
    httplib::Client client("127.0.0.1", server_.port());
    while (!client.Get("/")) {  // until it accepts connections
      std::this_thread::yield();
    }
  }
  ~Served() {
    server_.stop();
    thread_.join();
  }
  int port() const { return server_.port(); }

 private:
  serve::Server server_;
  std::thread thread_;
};

int port() {
  static Served served;
  return served.port();
}

httplib::Result post(const std::string& path, const std::string& body,
                     const httplib::Headers& headers = {},
                     const std::string& type = "application/json") {
  httplib::Client client("127.0.0.1", port());
  client.set_read_timeout(120);
  return client.Post(path, headers, body, type);
}

httplib::Result ask(const std::vector<std::string>& overrides) {
  return post("/forecast", json{{"set", overrides}}.dump());
}

// The text that `simulate --json -` writes.
std::string as_written(const std::vector<std::string>& overrides, forecast::Fidelity fidelity) {
  forecast::Forecaster forecaster(text::data_directory());
  const auto loaded = config::load("llama8b-fsdp", overrides);
  forecast::Options options;
  options.fidelity = fidelity;
  auto report = std::get<result::Report>(forecaster.forecast(loaded.job, options));
  report.job_json = config::to_json(loaded.job);
  return report::json(report);
}

// Both ends of a connection over the loopback interface.
class Line {
 public:
  Line() {
    listens_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const plain = reinterpret_cast<sockaddr*>(&at);
    ::bind(listens_, plain, size);
    ::listen(listens_, 1);
    ::getsockname(listens_, plain, &size);
    port = ntohs(at.sin_port);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    ::connect(client, plain, size);
    ::getsockname(client, plain, &size);
    client_port = ntohs(at.sin_port);
    server = ::accept(listens_, nullptr, nullptr);
  }
  ~Line() {
    for (const int end : {listens_, client, server}) {
      ::close(end);
    }
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // Reads until the connection ends.
  std::size_t read_all() const {
    std::size_t all = 0;
    std::string buffer(4096, ' ');
    for (ssize_t got = 1; got > 0; all += static_cast<std::size_t>(std::max<ssize_t>(got, 0))) {
      got = ::recv(server, buffer.data(), buffer.size(), 0);
    }
    return all;
  }

  int port = 0, client_port = 0, client = -1, server = -1;

 private:
  int listens_ = -1;
};

}  // namespace

TEST_CASE("A forecast is the report of the command line, byte by byte") {
  const auto given = post("/forecast", "{}");
  REQUIRE(given);
  CHECK(given->status == 200);
  CHECK(given->body == as_written({}, forecast::Fidelity::folded));
  const std::vector<std::string> sets = {"cluster.nodes=2", "workload.global_batch=32"};
  CHECK(ask(sets)->body == as_written(sets, forecast::Fidelity::folded));
  CHECK(post("/forecast", json{{"set", sets}, {"fidelity", "bound"}}.dump())->body ==
        as_written(sets, forecast::Fidelity::bound));
}

TEST_CASE("A headline's figures are those of the whole forecast, which follows") {
  const std::vector<std::string> sets = {"cluster.nodes=2", "workload.global_batch=64"};
  const std::string asked = json{{"set", sets}, {"fidelity", "headline"}}.dump();
  const auto first = post("/forecast", asked);
  REQUIRE(first);
  REQUIRE(first->status == 200);
  const json early = json::parse(first->body), whole = json::parse(ask(sets)->body);
  CHECK(early["engine"]["fidelity"] == "headline");
  for (const char* key : {"job", "breakdown", "bubble_fraction"}) {
    CHECK(early[key] == whole[key]);
  }
  for (const char* key : {"step_time", "tokens_per_second_per_gpu", "mfu", "model_flops_per_gpu"}) {
    CHECK(early[key] == json{{"value", whole[key]["value"]}});
  }
  CHECK_FALSE(early.contains("memory"));  // memory depends on the allocator's replay
  // If the whole forecast is known, it is sent instead of the headline.
  CHECK(post("/forecast", asked)->body == ask(sets)->body);
  const auto known =
      post("/forecast", json{{"set", json::array()}, {"fidelity", "headline"}}.dump());
  CHECK(known->body == as_written({}, forecast::Fidelity::folded));
}

TEST_CASE("Equal requests have equal bytes, however many come at once") {
  const std::vector<std::vector<std::string>> asked = {{"workload.micro_batch=1"},
                                                       {"memory.recompute=none"},
                                                       {"workload.global_batch=32"},
                                                       {"model=none"}};
  std::vector<std::string> alone;
  for (const auto& one : asked) {
    alone.push_back(one.front() == "model=none" ? ask(one)->body
                                                : as_written(one, forecast::Fidelity::folded));
  }
  constexpr int kThreads = 8;
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  const int at = port();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      httplib::Client client("127.0.0.1", at);
      client.set_read_timeout(120);
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t which = (i + static_cast<std::size_t>(t)) % asked.size();
        const auto answer =
            client.Post("/forecast", json{{"set", asked[which]}}.dump(), "application/json");
        wrong[static_cast<std::size_t>(t)] += !answer || answer->body != alone[which] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int>(kThreads, 0));
}

TEST_CASE("A job that cannot be is refused with the key at fault") {
  const auto unknown = ask({"parallelism.tensr=2"});
  CHECK(unknown->status == 400);
  const json faults = json::parse(unknown->body).at("faults");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].at("key") == "parallelism.tensr");
  CHECK_THAT(faults[0].at("message").get<std::string>(), ContainsSubstring("tensor"));

  const auto impossible = ask({"system=pytorch-fsdp2", "parallelism.zeropp.weights=int8"});
  CHECK(impossible->status == 422);
  CHECK_THAT(json::parse(impossible->body).at("faults")[0].at("key").get<std::string>(),
             ContainsSubstring("zeropp"));
}

TEST_CASE("What does not fit is told what would") {
  const std::vector<std::string> sets = {"workload.micro_batch=2", "memory.recompute=none",
                                         "workload.sequence_length=32768"};
  const json plain = json::parse(ask(sets)->body);
  REQUIRE(plain.at("memory").at("fits").at("verdict") == "no");
  CHECK(plain.at("advice").empty());
  json advised = json::parse(post("/advice", json{{"set", sets}}.dump())->body);
  REQUIRE_FALSE(advised.at("advice").empty());
  for (const json& one : advised.at("advice")) {
    CHECK(one.at("peak").get<double>() <= plain.at("memory").at("capacity").get<double>());
  }
  advised["advice"] = json::array();
  CHECK(advised == plain);
}

TEST_CASE("No override reads a file of this machine") {
  for (const char* one :
       {"model=/etc/passwd", "model={use: ../../etc/passwd}", "model=secret.json",
        "model={use: SECRET.JSON}", "cluster=site.yaml", "cluster.device=/dev/zero", "system=./x",
        "cluster.node={use: a/b, nics: 8}", "parallelism.schedule=order.csv",
        "parallelism={schedule: {name: a.csv}}", "calibration=secrets", "calibration=[auto, mine]",
        "model=~root", "use=C:\\\\x", "model=\"/etc/pass\\x77d\""}) {
    const auto answer = ask({one});
    INFO(one);
    CHECK(answer->status == 400);
    CHECK_THAT(answer->body, ContainsSubstring("command line"));
  }
  CHECK(ask({"cluster.node.nic=25 GB/s"})->status == 200);  // a rate is not a path
}

TEST_CASE("What is no request is refused") {
  for (const char* body : {"", "[]", "{\"set\": \"a=b\"}", "{\"set\": [1]}", "{\"sets\": []}",
                           "{\"fidelity\": \"full\"}", "{\"set\": [", "\xff\xfe"}) {
    INFO(body);
    const auto answer = post("/forecast", body);
    CHECK(answer->status == 400);
    CHECK(json::parse(answer->body).at("faults").size() == 1);
  }
  CHECK(ask(std::vector<std::string>(65, "seed=1"))->status == 400);
  CHECK(ask({"model=" + std::string(600, 'x')})->status == 400);
  CHECK(post("/forecast", std::string(70'000, ' '))->status == 413);
  // A chunked body states no length, and a compressed one the length of something smaller.
  httplib::Client chunked("127.0.0.1", port());
  const auto in_chunks = [&](int chunks) {
    return chunked.Post(
        "/forecast",
        [chunks](std::size_t, httplib::DataSink& sink) {
          for (int i = 0; i < chunks; ++i) {
            const std::string blank(1024, ' ');
            sink.write(blank.data(), blank.size());
          }
          sink.write("{}", 2);
          sink.done();
          return true;
        },
        "application/json");
  };
  CHECK(in_chunks(60)->status == 200);
  // The server answers before it has read everything; a client that still writes then may see only
  // a closed connection.
  const auto refused = in_chunks(70);
  CHECK((!refused || refused->status == 413));
  httplib::Client compressing("127.0.0.1", port());
  compressing.set_compress(true);
  const std::string blanks(10'000'000, ' ');
  const auto bomb = compressing.Post("/forecast", blanks + "{}", "application/json");
  CHECK((!bomb || bomb->status == 413));
  CHECK(compressing.Post("/forecast", "{}", "application/json")->status == 200);
  httplib::Client client("127.0.0.1", port());
  CHECK(client.Get("/etc/passwd")->status == 404);
  CHECK(client.Get("/../../etc/passwd")->status == 404);
  CHECK(client.Get("/forecast")->status == 404);
}

TEST_CASE("A job that is too large ends its own request and no other") {
  CHECK(ask({"workload.sequence_length=1e8"})->status == 422);
  CHECK(ask({"workload.global_batch=1e8"})->status == 422);
  CHECK(ask({"parallelism.reshard_after_forward=100000"})->status != 200);
  CHECK(ask({"seed=1"})->status == 200);
}

TEST_CASE("What a refused request leaves unread is no request") {
  // The body of a stranger's request is a request that would pass by itself.
  const std::string inner = fmt::format(
      "POST /forecast HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: "
      "application/json\r\nContent-Length: 2\r\n\r\n{{}}",
      port());
  const auto answer = post("/forecast", inner, {{"Origin", "http://evil.example"}});
  CHECK(answer->status == 403);
  CHECK(answer->get_header_value("Connection") == "close");
}

TEST_CASE("A page of another site cannot ask through a reader's browser") {
  const std::string own = fmt::format("127.0.0.1:{}", port());
  CHECK(post("/forecast", "{}", {{"Origin", "http://" + own}})->status == 200);
  CHECK(post("/forecast", "{}", {{"Origin", "http://evil.example"}})->status == 403);
  CHECK(post("/forecast", "{}", {{"Origin", "null"}})->status == 403);
  // a form of another site may send this type without a preflight.
  CHECK(post("/forecast", "{}", {}, "text/plain")->status == 415);
  CHECK(post("/forecast", "set=1", {}, "application/x-www-form-urlencoded")->status == 415);
  httplib::Client client("127.0.0.1", port());
  CHECK(client.Get("/", {{"Host", fmt::format("localhost:{}", port())}})->status == 200);
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""}) {
    INFO(host);
    CHECK(client.Get("/", {{"Host", host}})->status == 403);
  }
  const auto page = client.Get("/");
  CHECK(page->get_header_value("X-Frame-Options") == "DENY");
  CHECK_FALSE(page->has_header("Access-Control-Allow-Origin"));
}

TEST_CASE("A host is ours in figures, as localhost, or by the name that it was given") {
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "[::1]:8421", "LOCALHOST", "10.0.0.7:1"}) {
    CHECK(serve::is_our_host(host, "127.0.0.1"));
  }
  for (const char* host : {"", ":80", "[evil]", "[]", "[::1", "1.2.3", "1.2.3.4.5", "node7"}) {
    CHECK_FALSE(serve::is_our_host(host, "127.0.0.1"));
  }
  CHECK(serve::is_our_host("Node7:80", "node7"));
}

TEST_CASE("An address or a job that does not do is a fault before anything is served") {
  CHECK_THROWS_AS(serve::Server(options_of(port())), InputError);  // the port is in use
  serve::Options far = options_of();
  far.address = "192.0.2.1";  // an address that no host has (RFC 5737)
  CHECK_THROWS_AS(serve::Server(far), InputError);
  serve::Options none = options_of();
  none.config = "no-such-job";
  CHECK_THROWS_AS(serve::Server(none), InputError);
}

TEST_CASE("A request that never ends is cut off, by its size and by its silence") {
  using std::chrono::milliseconds;
  const std::string some(1000, 'x');
  {
    const Line line;
    const serve::Watch watch(line.port, {10'000, milliseconds(1'000'000), milliseconds(5)});
    std::thread sender([&] {
      while (::send(line.client, some.data(), some.size(), MSG_NOSIGNAL) > 0) {
      }
    });
    CHECK(line.read_all() >= 10'000);  // and it returns
    ::shutdown(line.client, SHUT_RDWR);
    sender.join();
  }
  const Line line;
  ::send(line.client, some.data(), some.size(), MSG_NOSIGNAL);
  const serve::Watch watch(line.port, {10'000, milliseconds(20), milliseconds(5)});
  CHECK(line.read_all() == some.size());
}

TEST_CASE("What waits for the server is not cut off, and what is answered has time") {
  using std::chrono::milliseconds;
  const Line line;
  ::send(line.client, "GET", 3, MSG_NOSIGNAL);
  Stop stop;
  std::string got(3, ' ');
  {
    const serve::Watch unread(line.port, {10, milliseconds(2), milliseconds(1)});
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(::recv(line.server, got.data(), got.size(), 0) == 3);
  serve::Watch watch(line.port, {10, milliseconds(50), milliseconds(10)});
  const serve::Watch::Answering answering(watch, "127.0.0.1", line.client_port, stop);
  std::this_thread::sleep_for(milliseconds(200));
  CHECK_FALSE(stop.asked());
  CHECK(::send(line.server, "yes", 3, MSG_NOSIGNAL) == 3);
  ::shutdown(line.client, SHUT_RDWR);
  while (!stop.asked()) {  // within milliseconds
    std::this_thread::yield();
  }
}

TEST_CASE("A client that sends header bytes for ever stops no other") {
  const int at = port();
  httplib::Client endless("127.0.0.1", at);
  endless.set_write_timeout(1);  // of silence: the server has long stopped reading
  const auto answer = endless.Get("/", {{"X", std::string(20'000'000, 'y')}});
  CHECK((!answer || answer->status >= 400));
  CHECK(ask({"seed=1"})->status == 200);
}
