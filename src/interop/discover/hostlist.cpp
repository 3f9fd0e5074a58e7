// Slurm's host lists: "dgx-[001-003,010],login".
#include <fmt/format.h>

#include <charconv>

#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

constexpr std::size_t kMaxHosts = 1'000'000;

class List {
 public:
  List(const std::string& text, Origin where) : text_(text), where_(std::move(where)) {}

  std::vector<std::string> all() {
    if (text_.empty()) {
      fault("an empty list of hosts; expected one such as dgx-[001-004]");
    }
    for (;;) {
      one();
      if (at_ == text_.size()) {
        return std::move(out_);
      }
      ++at_;  // a comma
    }
  }

 private:
  [[noreturn]] void fault(const std::string& message) const {
    Origin here = where_;
    here.column += here.line > 0 ? static_cast<int>(at_) : 0;
    throw InputError({here, message});
  }

  // Reads up to a comma outside brackets: all combinations of the text before the brackets, their
  // items, and the rest.
  void one() {
    std::vector<std::string> hosts = {""};
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == '[') {
        const std::vector<std::string> inner = range();
        if (hosts.size() * inner.size() + out_.size() > kMaxHosts) {
          fault(fmt::format("more than {} hosts", kMaxHosts));
        }
        std::vector<std::string> more;
        for (const std::string& host : hosts) {
          for (const std::string& number : inner) {
            more.push_back(host + number);
          }
        }
        hosts = std::move(more);
      } else if (text_[at_] == ']') {
        fault("']' without '['");
      } else {
        for (std::string& host : hosts) {
          host += text_[at_];
        }
        ++at_;
      }
    }
    if (at_ == from) {
      fault("an empty name; expected a host between commas");
    }
    out_.insert(out_.end(), hosts.begin(), hosts.end());
  }

  std::string digits() {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      ++at_;
    }
    if (at_ == from || at_ - from > 9) {
      fault("expected a number of at most nine digits in brackets");
    }
    return text_.substr(from, at_ - from);
  }

  std::vector<std::string> range() {
    std::vector<std::string> out;
    do {
      ++at_;  // '[' or ','
      const std::string first = digits();
      std::string last = first;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        last = digits();
      }
      const int a = std::stoi(first), b = std::stoi(last);
      if (b < a || static_cast<std::size_t>(b - a) > kMaxHosts) {
        fault(fmt::format("the range {}-{}; expected an ascending range of at most {} hosts", first,
                          last, kMaxHosts));
      }
      for (int n = a; n <= b; ++n) {
        out.push_back(fmt::format("{:0{}}", n, first.size()));
      }
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size() || text_[at_] != ']') {
      fault("expected ']'");
    }
    ++at_;
    return out;
  }

  const std::string& text_;
  Origin where_;
  std::size_t at_ = 0;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> expand_hostlist(const std::string& text, const Origin& where) {
  return List(text, where).all();
}

}  // namespace stepcast::interop
