// Words of a communicator and of its operations for people. JSON keeps the program's names.
#pragma once

#include <string>
#include <string_view>

namespace stepcast::report {

std::string group_words(const std::string& group);
// The category of the breakdown that a group's exposed time belongs to: "data" of "expert data".
std::string_view category_of_group(std::string_view group);
std::string operation_words(const std::string& operation);

}  // namespace stepcast::report
