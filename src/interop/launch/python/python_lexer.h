// Words of Python source, as far as recipes need them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::interop::launch {

struct PythonToken {
  enum class Kind { name, number, text, sign, line_end, end };
  Kind kind = Kind::end;
  std::string text;  // of a text without its quotes
  Origin origin;     // its column says how far the first word of a line is indented

  bool is(std::string_view what) const {
    return (kind == Kind::name || kind == Kind::sign) && text == what;
  }
};

// Comments and lines that go on are gone; the last token is `end`.
std::vector<PythonToken> python_tokens(std::string_view source, const std::string& name);

}  // namespace stepcast::interop::launch
