// Replaces the server in a build without cpp-httplib: `simulate serve` is an error that says so.
#include "stepcast/base/diagnostics.h"
#include "stepcast/serve/serve.h"

namespace stepcast::serve {

struct Server::State {};

bool available() { return false; }

Server::Server(const Options&) {
  throw InputError(
      Fault{{"serve", 0, 0},
            "this build has no HTTP; expected one made where libcpp-httplib-dev is installed"});
}
Server::~Server() = default;
int Server::port() const { return 0; }
std::string Server::url() const { return ""; }
void Server::run() {}
void Server::stop() {}

}  // namespace stepcast::serve
