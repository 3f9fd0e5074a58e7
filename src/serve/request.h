// Reads and checks what a page asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::serve {

struct Request {
  std::vector<std::string> overrides;
  // headline: the values of a folded forecast that need neither intervals nor the allocator's
  // replay.
  enum class Detail { bound, headline, folded } detail = Detail::folded;
};

// Throws InputError when `body` is not such JSON or is too long, or when an override could name a
// file. A value with a slash is allowed only if it is a rate ("400 Gb/s").
Request read_request(const std::string& body);

// True if a Host header names this server: a numeric address, localhost or `address` itself. Any
// other name may be one that a foreign page has pointed at this machine (DNS rebinding).
bool is_our_host(std::string_view host, const std::string& address);

}  // namespace stepcast::serve
