// The answers behind an HTTP server, which is a module of its own (http.cpp).
#include <fmt/format.h>

#include "answers.h"
#include "heap.h"
#include "http.h"
#include "page.h"
#include "request.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/base/late_module.h"
#include "stepcast/serve/serve.h"

namespace stepcast::serve {

bool available() { return true; }

struct Server::State {
  explicit State(const Options& o) : options(o), answers(o) {}
  Options options;
  Answers answers;
  Listening http;

  Service service();
};

Service Server::State::service() {
  Service out;
  out.address = options.address;
  out.port = options.port;
  out.page = page_text(options, answers.title());
  out.is_our_host = [this](std::string_view host) { return is_our_host(host, options.address); };
  out.forecast = [this](const std::string& body, const Stop& stop) {
    return answers.forecast(body, stop);
  };
  out.advice = [this](const std::string& body, const Stop& stop) {
    return answers.advice(body, stop);
  };
  out.refuse = refusal;
  out.idle = shrink_heap;
  return out;
}

Server::Server(const Options& options) {
  share_heap();
  state_ = std::make_unique<State>(options);
  late_function<Listen>("http", "stepcast_listen")(state_->service(), state_->http);
  if (!state_->http.error.empty()) {
    throw InputError(Fault{{"--port", 0, 0},
                           fmt::format("cannot listen on {} port {}: {}", options.address,
                                       options.port, state_->http.error)});
  }
}
Server::~Server() = default;

int Server::port() const { return state_->http.port; }
std::string Server::url() const {
  const bool six = state_->options.address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", six ? "[" : "", state_->options.address, six ? "]" : "",
                     state_->http.port);
}
void Server::run() { state_->http.run(); }
void Server::stop() { state_->http.stop(); }

}  // namespace stepcast::serve
