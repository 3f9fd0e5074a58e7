// Serves the answers over HTTP with cpp-httplib: one thread per connection, no TLS.
#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "answers.h"
#include "page.h"
#include "request.h"
#include "stepcast/serve/serve.h"
#include "watch.h"

namespace stepcast::serve {
namespace {

constexpr std::size_t kLargestBody = std::size_t{64} << 10;
constexpr std::size_t kConnections = 16;
constexpr int kIdleSeconds = 2;  // how long an idle connection is kept open; stop() waits for it
// Limit for each read of the rest of a request and for sending an answer. Watch limits all reads of
// a request together.
constexpr int kPatienceSeconds = 5;
// A forecast within the limit on tasks takes less; what takes longer belongs on the command line.
constexpr std::chrono::seconds kLongestAnswer{60};

void send(httplib::Response& response, const Answer& answer) {
  response.status = answer.status;
  response.set_header("Server-Timing", fmt::format("forecast;dur={:.1f}", answer.milliseconds));
  response.set_content(answer.json, "application/json");
}

// Returns why a request must not be answered, or nothing if it may be.
std::string stranger(const httplib::Request& request, const std::string& address) {
  const std::string host = request.get_header_value("Host");
  if (request.get_header_value_count("Host") != 1 || !is_our_host(host, address)) {
    return fmt::format("the Host header names '{}'; expected this server's IP address or localhost",
                       host);
  }
  if (request.has_header("Origin") && request.get_header_value("Origin") != "http://" + host) {
    return "the request comes from a page of another site; expected one of this server";
  }
  return "";
}

}  // namespace

bool available() { return true; }

struct Server::State {
  explicit State(const Options& o) : options(o), answers(o), page(page_text(o, answers.title())) {}
  Options options;
  Answers answers;
  std::string page;
  httplib::Server http;
  int port = 0;
  std::optional<Watch> watch;

  void prepare();
  void listen();
};

void Server::State::prepare() {
  http.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
  http.set_payload_max_length(kLargestBody);
  http.set_keep_alive_timeout(kIdleSeconds);
  // One request a connection: what a refused request leaves unread is never taken for another one,
  // with headers of its own.
  http.set_keep_alive_max_count(1);
  http.set_read_timeout(kPatienceSeconds);
  http.set_write_timeout(kPatienceSeconds);
  http.set_tcp_nodelay(true);
  // SO_REUSEPORT is not set: with it, a second server could share the port unnoticed.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                            {"X-Frame-Options", "DENY"},
                            {"Referrer-Policy", "no-referrer"},
                            {"Cross-Origin-Resource-Policy", "same-origin"},
                            {"Cache-Control", "no-store"}});
  http.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        const std::string why = stranger(request, options.address);
        if (why.empty()) {
          return httplib::Server::HandlerResponse::Unhandled;
        }
        send(response, refusal(403, "request", why));
        return httplib::Server::HandlerResponse::Handled;
      });
  http.Get("/", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(page, "text/html; charset=utf-8");
  });
  const auto post = [this](const char* path,
                           Answer (Answers::*answer)(const std::string&, const Stop&)) {
    http.Post(path, [this, answer](const httplib::Request& request, httplib::Response& response,
                                   const httplib::ContentReader& content) {
      // A browser sends JSON from a foreign site only after a preflight request, which is refused
      // here.
      if (!request.get_header_value("Content-Type").starts_with("application/json")) {
        send(response, refusal(415, "request", "expected Content-Type: application/json"));
        return;
      }
      // Counted as it comes: a chunked body states no length, and a compressed one another.
      std::string body;
      const bool whole = content([&body](const char* data, std::size_t length) {
        body.append(data, std::min(length, kLargestBody + 1 - body.size()));
        return body.size() <= kLargestBody;
      });
      if (!whole) {
        const bool large = body.size() > kLargestBody || response.status == 413;
        send(response, large ? refusal(413, "request", "more than 64 KiB")
                             : refusal(400, "request", "cannot be read"));
        return;
      }
      Stop stop(Stop::Clock::now() + kLongestAnswer);
      const Watch::Answering answering(*watch, request.remote_addr, request.remote_port, stop);
      send(response, (answers.*answer)(body, stop));
    });
  };
  post("/forecast", &Answers::forecast);
  post("/advice", &Answers::advice);
  http.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr error) {
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& known) {
          send(response, refusal(500, "simulate", known.what()));
        } catch (...) {
          send(response, refusal(500, "simulate", "failed"));
        }
      });
  http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) {
      send(response, refusal(response.status, "request",
                             response.status == 404   ? "there is no such page"
                             : response.status == 413 ? "more than 64 KiB"
                                                      : "cannot be read"));
    }
  });
}

void Server::State::listen() {
  errno = 0;
  if (options.port == 0) {
    port = http.bind_to_any_port(options.address);
  } else if (http.bind_to_port(options.address, options.port)) {
    port = options.port;
  } else {
    port = -1;
  }
  if (port <= 0) {
    throw InputError(
        Fault{{"--port", 0, 0},
              fmt::format("cannot listen on {} port {}: {}", options.address, options.port,
                          errno != 0 ? std::strerror(errno) : "no such address")});
  }
  watch.emplace(port);
}

Server::Server(const Options& options) : state_(std::make_unique<State>(options)) {
  state_->prepare();
  state_->listen();
}
Server::~Server() = default;

int Server::port() const { return state_->port; }
std::string Server::url() const {
  const bool six = state_->options.address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", six ? "[" : "", state_->options.address, six ? "]" : "",
                     state_->port);
}
void Server::run() { state_->http.listen_after_bind(); }
void Server::stop() { state_->http.stop(); }

}  // namespace stepcast::serve
