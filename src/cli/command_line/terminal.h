// The terminal that the program runs in: its size and colours, and messages beside results.
#pragma once

#include <string>

namespace stepcast::cli {

// Standard output's width in columns where it is a terminal, else 100; and whether to colour.
int terminal_width();
bool terminal_colour();

// Writes `text` to standard error; failures are ignored, as they cannot be reported anywhere.
void write_stderr(const std::string& text);

}  // namespace stepcast::cli
