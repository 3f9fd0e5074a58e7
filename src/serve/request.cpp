#include "request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::serve {
namespace {

using text::Value;

const text::Keys kRequestKeys = {{"set", "fidelity"}, "; expected set or fidelity", false};
constexpr std::size_t kMaxOverrides = 64;
constexpr std::size_t kLongestOverride = 512;  // bytes

[[noreturn]] void refuse(const std::string& where, const std::string& message) {
  throw InputError(Fault{{where, 0, 0}, message});
}

std::string lower(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// True for everything that config might take for a path.
bool could_be_file(const std::string& word) {
  static const std::regex rate(R"([0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)? ?[A-Za-z]{1,4}/s)");
  const std::string name = lower(word);
  const bool suffix = name.ends_with(".yaml") || name.ends_with(".yml") ||
                      name.ends_with(".json") || name.ends_with(".csv");
  const bool parted = name.find_first_of("/\\~") != std::string::npos || name.starts_with(".");
  return suffix || (parted && !std::regex_match(word, rate));
}

void vet(const Value& value, const std::string& override) {
  if (value.kind == Value::Kind::scalar && could_be_file(value.scalar)) {
    refuse("--set " + override,
           "names a file; expected a name of configs/ (files are for the command line)");
  }
  for (const Value& item : value.items) {
    vet(item, override);
  }
  for (const Value::Entry& entry : value.entries) {
    vet(entry.value, override);
  }
}

void vet(const std::string& override) {
  if (override.size() > kLongestOverride) {
    refuse("set", fmt::format("an override of {} bytes; expected at most {}", override.size(),
                              kLongestOverride));
  }
  const std::size_t equals = override.find('=');
  if (equals == std::string::npos) {
    return;  // config refuses it with its own message
  }
  const std::string key = lower(override.substr(0, equals));
  if (key.find("calibration") != std::string::npos) {
    refuse("--set " + override, "calibration is read from files; expected it on the command line");
  }
  vet(text::parse_yaml(override.substr(equals + 1), "--set " + override), override);
}

}  // namespace

Request read_request(const std::string& body) {
  const Value root = text::parse_json(body, "request");
  if (root.kind != Value::Kind::map) {
    refuse("request", "is not an object; expected {\"set\": [\"KEY=VALUE\"]}");
  }
  Request request;
  for (const Value::Entry& entry : root.entries) {
    if (entry.key == "fidelity") {
      const std::string& name = text::to_string(entry.value);
      if (name != "folded" && name != "headline" && name != "bound") {
        refuse("fidelity",
               fmt::format("unknown fidelity '{}'; expected folded, headline or bound", name));
      }
      request.detail = name == "bound"      ? Request::Detail::bound
                       : name == "headline" ? Request::Detail::headline
                                            : Request::Detail::folded;
    } else if (!kRequestKeys.contains(entry.key)) {
      refuse("request", kRequestKeys.unknown(entry.key));
    } else if (entry.value.kind != Value::Kind::sequence ||
               entry.value.items.size() > kMaxOverrides) {
      refuse("set", fmt::format("expected a list of at most {} overrides", kMaxOverrides));
    } else {
      for (const Value& item : entry.value.items) {
        if (item.kind != Value::Kind::scalar || !item.quoted) {
          refuse("set", "an override is not a string; expected \"KEY=VALUE\"");
        }
        vet(item.scalar);
        request.overrides.push_back(item.scalar);
      }
    }
  }
  return request;
}

bool is_our_host(std::string_view host, const std::string& address) {
  if (!host.empty() && host.front() == '[') {  // an IPv6 address in brackets
    const std::size_t end = host.find(']');
    return end != std::string_view::npos && end > 1 &&
           host.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") ==
               std::string_view::npos;
  }
  const std::string name = lower(std::string(host.substr(0, host.find(':'))));
  static const std::regex figures(R"([0-9]{1,3}(\.[0-9]{1,3}){3})");
  return name == "localhost" || (!name.empty() && name == lower(address)) ||
         std::regex_match(name, figures);
}

}  // namespace stepcast::serve
