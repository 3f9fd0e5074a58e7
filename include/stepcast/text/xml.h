// XML as located elements: what topology files of NCCL are written in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::text {

struct Element {
  std::string name;
  Origin origin;  // of its opening tag
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<Element> children;
  const std::string* find(std::string_view attribute) const;  // nullptr when absent
};

// Whether this build reads XML (libexpat).
bool have_xml();
// The root element; text between tags is dropped. Throws InputError (missing file, malformed text, depth beyond 64, a build
// without XML).
Element read_xml(const std::filesystem::path& file);

}  // namespace stepcast::text
