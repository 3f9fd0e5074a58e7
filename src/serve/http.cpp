// The module that serves over HTTP with cpp-httplib: one thread per connection, no TLS.
#include "http.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "watch.h"

namespace stepcast::serve {
namespace {

constexpr std::size_t kLargestBody = std::size_t{64} << 10;
constexpr std::size_t kConnections = 16;
constexpr int kBacklog =
    1024;  // connections that wait to be accepted; httplib's 5 overflow at once
constexpr int kIdleSeconds = 2;  // how long an idle connection is kept open; stop() waits for it
// Limit for each read of the rest of a request and for sending an answer. Watch limits all reads of
// a request together.
constexpr int kPatienceSeconds = 5;
// A forecast within the limit on tasks takes less; what takes longer belongs on the command line.
constexpr std::chrono::seconds kLongestAnswer{60};

// Threads for connections, at most kConnections at a time, which end when none waits. Those of
// httplib's own pool stay, each with the deepest stack that it ever had and with a list of what it
// freed last, which keeps pages of the heap from being given back.
class Connections final : public httplib::TaskQueue {
 public:
  // Nothing in httplib 0.11 (Debian 12), in 0.18 (Debian 13) whether the work is taken.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));
  Enqueued enqueue(std::function<void()> work) override {
    take(std::move(work));
    return static_cast<Enqueued>(true);
  }
  void shutdown() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  void take(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    waiting_.push_back(std::move(work));
    if (running_ >= kConnections) {
      return;
    }
    ++running_;
    try {
      std::thread([this] { work_off(); }).detach();
    } catch (const std::system_error&) {  // the process may have no more threads
      --running_;
      if (running_ > 0) {
        return;  // one of those that run takes it
      }
      ++running_;
      lock.unlock();
      work_off();
    }
  }
  void work_off() {
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    --running_;
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<std::function<void()>> waiting_;
  std::size_t running_ = 0;
};

void send(httplib::Response& response, const Answer& answer) {
  response.status = answer.status;
  response.set_header("Server-Timing", fmt::format("forecast;dur={:.1f}", answer.milliseconds));
  response.set_content(answer.json, "application/json");
}

class HttpServer {
 public:
  explicit HttpServer(const Service& service) : service_(service) {
    set_limits();
    set_routes();
    set_failures();
  }
  void listen(Listening& out);
  void run() { http_.listen_after_bind(); }
  void stop() { http_.stop(); }

 private:
  void set_limits();
  void set_routes();
  void set_failures();
  void post(const char* path, const Service::Reply& reply);
  void answer(const httplib::Request& request, httplib::Response& response,
              const httplib::ContentReader& content, const Service::Reply& reply);
  std::string stranger(const httplib::Request& request) const;

  const Service service_;
  httplib::Server http_;
  socket_t listening_ = -1;
  std::optional<Watch> watch_;
};

// Returns why a request must not be answered, or nothing if it may be.
std::string HttpServer::stranger(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host");
  if (request.get_header_value_count("Host") != 1 || !service_.is_our_host(host)) {
    return fmt::format("the Host header names '{}'; expected this server's IP address or localhost",
                       host);
  }
  if (request.has_header("Origin") && request.get_header_value("Origin") != "http://" + host) {
    return "the request comes from a page of another site; expected one of this server";
  }
  return "";
}

void HttpServer::set_limits() {
  http_.new_task_queue = [] { return new Connections; };
  http_.set_payload_max_length(kLargestBody);
  http_.set_keep_alive_timeout(kIdleSeconds);
  // One request a connection: what a refused request leaves unread is never taken for another one,
  // with headers of its own.
  http_.set_keep_alive_max_count(1);
  http_.set_read_timeout(kPatienceSeconds);
  http_.set_write_timeout(kPatienceSeconds);
  http_.set_tcp_nodelay(true);
  // SO_REUSEPORT is not set: with it, a second server could share the port unnoticed.
  http_.set_socket_options([this](socket_t socket) {
    listening_ = socket;
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http_.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                             {"X-Frame-Options", "DENY"},
                             {"Referrer-Policy", "no-referrer"},
                             {"Cross-Origin-Resource-Policy", "same-origin"},
                             {"Cache-Control", "no-store"}});
}

void HttpServer::set_routes() {
  http_.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        const std::string why = stranger(request);
        if (why.empty()) {
          return httplib::Server::HandlerResponse::Unhandled;
        }
        send(response, service_.refuse(403, "request", why));
        return httplib::Server::HandlerResponse::Handled;
      });
  http_.Get("/", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(service_.page, "text/html; charset=utf-8");
  });
  post("/forecast", service_.forecast);
  post("/advice", service_.advice);
}

void HttpServer::post(const char* path, const Service::Reply& reply) {
  http_.Post(path, [this, &reply](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& content) {
    answer(request, response, content, reply);
  });
}

void HttpServer::answer(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& content, const Service::Reply& reply) {
  // A browser sends JSON from a foreign site only after a preflight request, which is refused
  // here.
  if (!request.get_header_value("Content-Type").starts_with("application/json")) {
    send(response, service_.refuse(415, "request", "expected Content-Type: application/json"));
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
    send(response, large ? service_.refuse(413, "request", "more than 64 KiB")
                         : service_.refuse(400, "request", "cannot be read"));
    return;
  }
  Stop stop(Stop::Clock::now() + kLongestAnswer);
  const Watch::Answering answering(*watch_, request.remote_addr, request.remote_port, stop);
  send(response, reply(body, stop));
}

void HttpServer::set_failures() {
  http_.set_exception_handler(
      [this](const httplib::Request&, httplib::Response& response, std::exception_ptr error) {
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& known) {
          send(response, service_.refuse(500, "simulate", known.what()));
        } catch (...) {
          send(response, service_.refuse(500, "simulate", "failed"));
        }
      });
  http_.set_error_handler([this](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) {
      send(response, service_.refuse(response.status, "request",
                                     response.status == 404   ? "there is no such page"
                                     : response.status == 413 ? "more than 64 KiB"
                                                              : "cannot be read"));
    }
  });
}

void HttpServer::listen(Listening& out) {
  errno = 0;
  if (service_.port == 0) {
    out.port = http_.bind_to_any_port(service_.address);
  } else {
    out.port = http_.bind_to_port(service_.address, service_.port) ? service_.port : -1;
  }
  if (out.port <= 0) {
    out.error = errno != 0 ? std::strerror(errno) : "no such address";
    return;
  }
  ::listen(listening_, kBacklog);
  watch_.emplace(out.port, WatchLimits{}, service_.idle);
}

}  // namespace

extern "C" Listen stepcast_listen;
extern "C" void stepcast_listen(const Service& service, Listening& out) {
  const auto server = std::make_shared<HttpServer>(service);
  server->listen(out);
  out.run = [server] { server->run(); };
  out.stop = [server] { server->stop(); };
}

}  // namespace stepcast::serve
