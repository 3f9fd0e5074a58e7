// What a page asks for, read and vetted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::serve {

struct Request {
  std::vector<std::string> overrides;
  // headline: a folded forecast's figures that need neither intervals nor the allocator's replay.
  enum class Detail { bound, headline, folded } detail = Detail::folded;
};

// Throws InputError: no such JSON, too much of it, or an override that could name a file. A value
// with a slash is allowed as a rate only ("400 Gb/s").
Request read_request(const std::string& body);

// Whether a Host header speaks of this server. An address in figures, localhost or `address` itself
// does; any other name may be one that a stranger's page has pointed here (DNS rebinding).
bool is_our_host(std::string_view host, const std::string& address);

}  // namespace stepcast::serve
