// Parts of the sentences that reports begin with.
#pragma once

#include <cstddef>
#include <string>

#include "../text/format.h"

namespace stepcast::report {

// "1 point", "1,234 points".
std::string counted(std::size_t n, const char* one);

// "12 % less than NAME", "2.3 times that of NAME"; "the same as NAME" where both are the same to
// a per mille. `noun`: what is less: "time ".
std::string beside(double value, double base, const char* noun, const std::string& name);

// A report's first lines on a terminal: the sentence, and the title below it.
std::string opening(const Paint& paint, const std::string& sentence, const std::string& title,
                    int width);

}  // namespace stepcast::report
