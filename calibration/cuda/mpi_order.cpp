// Converts a case to text for the other processes: one field per line, in the order of the struct.
// The structured bindings fail to compile when a struct gains a field, so that none is forgotten.
#include <charconv>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "mpi.h"

namespace stepcast::harness::cuda {
namespace {

class Writer {
 public:
  template <class... T>
  void operator()(const T&... fields) {
    (one(fields), ...);
  }
  std::string text;

 private:
  void one(const std::string& word) { text += word + '\n'; }
  template <class T>
  void one(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      one(static_cast<int>(value));
    } else {
      char digits[64];  // the shortest form that reads back the same
      const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
      text.append(digits, error == std::errc() ? end : digits);
      text += '\n';
    }
  }
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  template <class... T>
  void operator()(T&... fields) {
    (one(fields), ...);
  }
  std::string word() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string::npos) {
      throw std::logic_error("a case from rank 0 is cut short");
    }
    std::string out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

 private:
  void one(std::string& field) { field = word(); }
  template <class T>
  void one(T& field) {
    if constexpr (std::is_enum_v<T>) {
      int value = 0;
      one(value);
      field = static_cast<T>(value);
    } else {
      const std::string digits = word();
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), field);
      if (error != std::errc() || stop != digits.data() + digits.size()) {
        throw std::logic_error("a case from rank 0 has '" + digits + "' for a number");
      }
    }
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

template <class Fields, class Case>
void collective(Fields& fields, Case& what) {
  auto& [op, dtype, bytes, ranks, nodes, algo, proto] = what;
  fields(op, dtype, bytes, ranks, nodes, algo, proto);
}
template <class Fields, class Case>
void overlap(Fields& fields, Case& what) {
  auto& [kernel, m, n, k, bytes, op, direction, other_bytes, ranks, channels] = what;
  fields(kernel, m, n, k, bytes, op, direction, other_bytes, ranks, channels);
}
template <class Fields, class Kept>
void policy(Fields& fields, Kept& kept) {
  auto& [warmups, samples, budget, sustained_warmup, sustained, seed] = kept;
  fields(warmups, samples, budget, sustained_warmup, sustained, seed);
}

constexpr const char* kCollective = "collective";
constexpr const char* kOverlap = "overlap";

}  // namespace

bool of_all(const interop::GpuCase& what) {
  if (const auto* overlapped = std::get_if<interop::OverlapCase>(&what)) {
    return !overlapped->op.empty();
  }
  return std::holds_alternative<interop::CollectiveCase>(what);
}

std::string to_text(const Order& order) {
  Writer out;
  policy(out, order.policy);
  if (const auto* what = std::get_if<interop::CollectiveCase>(&order.what)) {
    out(std::string(kCollective));
    collective(out, *what);
  } else if (const auto* beside = std::get_if<interop::OverlapCase>(&order.what)) {
    out(std::string(kOverlap));
    overlap(out, *beside);
  } else {
    throw std::logic_error("only cases of several ranks are sent");
  }
  return out.text;
}

Order order_of(const std::string& text) {
  Reader in(text);
  Order order;
  policy(in, order.policy);
  const std::string kind = in.word();
  if (kind == kCollective) {
    interop::CollectiveCase what;
    collective(in, what);
    order.what = what;
  } else if (kind == kOverlap) {
    interop::OverlapCase what;
    overlap(in, what);
    order.what = what;
  } else {
    throw std::logic_error("a case from rank 0 is of the unknown kind '" + kind + "'");
  }
  return order;
}

}  // namespace stepcast::harness::cuda
