// Options whose value is a quantity with a unit.
#pragma once

#include <string>

namespace stepcast::cli {

// Seconds above zero of a text such as "60d" or "9.6 s". A number without a unit is a fault, which
// shows `example`: nobody can tell what was meant.
double seconds_option(const std::string& option, const std::string& text, const char* example);

// Watts above zero of a text such as "10MW", likewise.
double watts_option(const std::string& option, const std::string& text, const char* example);

// A limit of time, where a number without a unit has always been seconds. At least zero.
double time_limit_option(const std::string& option, const std::string& text);

}  // namespace stepcast::cli
