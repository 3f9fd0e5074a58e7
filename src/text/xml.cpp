// Reads XML with expat. Only the five predefined entities are expanded: expat reports no others.
#include "stepcast/text/xml.h"

#include <expat.h>

#include <memory>

#include "files.h"

namespace stepcast::text {
namespace {

struct Building {
  XML_Parser parser = nullptr;
  std::string name;
  std::vector<Element> open;  // from the root inwards; the first is the document itself
  bool too_deep = false;
};

// Debian 13's expat deprecates these for functions that Debian 12's does not have.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
Origin here(const Building& b) {
  return {b.name, static_cast<int>(XML_GetCurrentLineNumber(b.parser)),
          static_cast<int>(XML_GetCurrentColumnNumber(b.parser)) + 1};
}
#pragma GCC diagnostic pop

void start(void* data, const XML_Char* name, const XML_Char** attributes) {
  Building& b = *static_cast<Building*>(data);
  if (b.open.size() > kDepthLimit) {
    b.too_deep = true;
    XML_StopParser(b.parser, XML_FALSE);
    return;
  }
  Element e;
  e.name = name;
  e.origin = here(b);
  for (const XML_Char** a = attributes; *a != nullptr; a += 2) {
    e.attributes.emplace_back(a[0], a[1]);
  }
  b.open.push_back(std::move(e));
}

void end(void* data, const XML_Char*) {
  Building& b = *static_cast<Building*>(data);
  Element done = std::move(b.open.back());
  b.open.pop_back();
  b.open.back().children.push_back(std::move(done));
}

}  // namespace

const std::string* Element::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) {
      return &value;
    }
  }
  return nullptr;
}

bool have_xml() { return true; }

Element read_xml(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  check_is_text(bytes, file.string());
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser(
      XML_ParserCreate("UTF-8"), XML_ParserFree);
  Building b;
  b.parser = parser.get();
  b.name = file.string();
  b.open.emplace_back();
  XML_SetUserData(b.parser, &b);
  XML_SetElementHandler(b.parser, start, end);
  if (XML_Parse(b.parser, bytes.data(), static_cast<int>(bytes.size()), XML_TRUE) !=
      XML_STATUS_OK) {
    fail(here(b),
         b.too_deep ? std::string("nested too deeply; expected at most 64 levels")
                    : std::string("malformed XML: ") + XML_ErrorString(XML_GetErrorCode(b.parser)));
  }
  return std::move(b.open.front().children.front());
}

}  // namespace stepcast::text
