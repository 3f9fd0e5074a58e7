// Words of a communicator and of its operations for people. JSON keeps the program's names.
#pragma once

#include <string>

namespace stepcast::report {

std::string group_words(const std::string& group);
std::string operation_words(const std::string& operation);

}  // namespace stepcast::report
