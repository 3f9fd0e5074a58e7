// What the module `http` offers: a server that answers by the functions of a Service. The program
// opens it only for `simulate serve`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "answer.h"
#include "stepcast/base/stop.h"

namespace stepcast::serve {

struct Service {
  std::string address;
  int port = 0;  // 0: any free one
  std::string page;
  std::function<bool(std::string_view host)> is_our_host;
  using Reply = std::function<Answer(const std::string& body, const Stop& stop)>;
  Reply forecast, advice;
  std::function<Answer(int status, const std::string& key, const std::string& message)> refuse;
  std::function<void()> idle;  // called when no connection is left
};

struct Listening {
  int port = 0;
  std::string error;          // not empty: the address cannot be used
  std::function<void()> run;  // answers requests until stop()
  std::function<void()> stop;
};

// `service` is copied. What listens ends with the last copy of `out`'s functions.
using Listen = void(const Service& service, Listening& out);

}  // namespace stepcast::serve
