#include "pickle.h"

#include <bit>

namespace stepcast::interop {
namespace {

// Lib/pickletools.py. The snapshot viewer's own reader also reads all of them.
enum Opcode : unsigned {
  kProto = 0x80,
  kStop = '.',
  kMark = '(',
  kEmptyDict = '}',
  kSetItems = 'u',
  kEmptyList = ']',
  kAppends = 'e',
  kTuple2 = 0x86,
  kShortText = 0x8c,  // one byte of length
  kText = 'X',        // four bytes of length
  kInt1 = 'K',        // unsigned
  kInt2 = 'M',        // unsigned
  kInt4 = 'J',        // signed
  kLong1 = 0x8a,      // one byte of length, two's complement
  kFloat = 'G',       // big-endian
  kTrue = 0x88,
  kFalse = 0x89,
  kMemoize = 0x94,
  kGet1 = 'h',
  kGet4 = 'j',
};
constexpr unsigned kProtocol = 4;

}  // namespace

PickleWriter::PickleWriter() {
  byte(kProto);
  byte(kProtocol);
}

void PickleWriter::little(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    byte(static_cast<unsigned>(value >> (8 * i) & 0xffU));
  }
}

PickleWriter& PickleWriter::open_dict() {
  byte(kEmptyDict);
  byte(kMark);
  return *this;
}

PickleWriter& PickleWriter::close_dict() {
  byte(kSetItems);
  return *this;
}

PickleWriter& PickleWriter::open_list() {
  byte(kEmptyList);
  byte(kMark);
  return *this;
}

PickleWriter& PickleWriter::close_list() {
  byte(kAppends);
  return *this;
}

PickleWriter& PickleWriter::pair(std::int64_t first, std::int64_t second) {
  integer(first).integer(second);
  byte(kTuple2);
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view value) {
  if (const auto it = texts_.find(value); it != texts_.end()) {
    return get(it->second);
  }
  if (value.size() < 256) {
    byte(kShortText);
    little(value.size(), 1);
  } else {
    byte(kText);
    little(value.size(), 4);
  }
  out_ += value;
  texts_.emplace(value, memoize());
  return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value < 1 << 8) {
    byte(kInt1);
    little(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 1 << 16) {
    byte(kInt2);
    little(static_cast<std::uint64_t>(value), 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    byte(kInt4);
    little(static_cast<std::uint64_t>(value), 4);
  } else {
    byte(kLong1);
    little(8, 1);
    little(static_cast<std::uint64_t>(value), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::number(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  byte(kFloat);
  for (int i = 7; i >= 0; --i) {
    byte(static_cast<unsigned>(bits >> (8 * i) & 0xffU));
  }
  return *this;
}

PickleWriter& PickleWriter::boolean(bool value) {
  byte(value ? kTrue : kFalse);
  return *this;
}

std::uint32_t PickleWriter::memoize() {
  byte(kMemoize);
  return memos_++;
}

PickleWriter& PickleWriter::get(std::uint32_t memo) {
  byte(memo < 256 ? kGet1 : kGet4);
  little(memo, memo < 256 ? 1 : 4);
  return *this;
}

std::string PickleWriter::finish() && {
  byte(kStop);
  return std::move(out_);
}

}  // namespace stepcast::interop
