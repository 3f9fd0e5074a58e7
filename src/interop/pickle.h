// Writes Python's pickle, protocol 4, for the few kinds of values in a memory snapshot,
// opcode by opcode; strings and whole values are shared through the memo. SOURCE: Python,
// Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace stepcast::interop {

class PickleWriter {
 public:
  PickleWriter();

  PickleWriter& open_dict();  // then text, value, text, value ...
  PickleWriter& close_dict();
  PickleWriter& open_list();  // then values
  PickleWriter& close_list();
  PickleWriter& pair(std::int64_t first, std::int64_t second);  // a tuple

  PickleWriter& text(std::string_view value);  // UTF-8; a repeated text refers to the first one
  PickleWriter& integer(std::int64_t value);
  PickleWriter& number(double value);
  PickleWriter& boolean(bool value);

  // Stores the value that was just closed in the memo; `get` writes a reference to it.
  std::uint32_t memoize();
  PickleWriter& get(std::uint32_t memo);

  std::string finish() &&;

 private:
  void byte(unsigned value) { out_ += static_cast<char>(value); }
  void little(std::uint64_t value, int bytes);

  std::string out_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::uint32_t memos_ = 0;
};

}  // namespace stepcast::interop
