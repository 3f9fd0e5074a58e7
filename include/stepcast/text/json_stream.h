// JSON documents of gigabytes, read in pieces: one list of objects, such as the events of a profiler's trace, and the few
// facts beside it. Plain text or gzip. A document may be damaged: its whole objects are given, the rest is counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::text {

enum class JsonKind {
  string,  // decoded
  number,  // as written
  word,    // true, false, null, and what is no JSON (NaN)
  list,    // as written
  object,  // as written, below the second level
};

// Who reads the list. Texts are valid only during the call.
class JsonListReader {
 public:
  virtual ~JsonListReader() = default;
  // A scalar of the document outside the list, by its path: "distributedInfo.rank", "deviceProperties.0.name".
  virtual void fact(std::string_view path, std::string_view value) = 0;
  // The next object of the list: its members follow, then end() if the object is whole.
  virtual void begin() = 0;
  // Whether a member is to be given; `parent`: "" or the key of the object that the member is in. Of a member that holds an
  // object, its own members are given.
  virtual bool wants(std::string_view parent, std::string_view key) = 0;
  // False: the rest of this object is not needed.
  virtual bool member(std::string_view parent, std::string_view key, std::string_view value, JsonKind kind) = 0;
  virtual void end() = 0;
};

struct JsonStream {
  bool json = false;              // it begins as a JSON document does; if not, nothing was read
  std::string head;               // its first bytes
  bool found = false;             // the document has the list
  bool compressed = false;        // gzip
  std::int64_t bytes = 0;         // of the text, decompressed
  std::int64_t objects = 0;       // of the list, whole
  std::int64_t damaged = 0;       // places that could not be read
  std::int64_t first_fault = 0;   // the byte of the text at which the first of them begins
  bool cut = false;               // the file ends within the document
  std::string why;                // of the decompression that failed; "": it did not
  std::vector<std::string> keys;  // of the document, the first few
};

// Whether this build reads such documents (simdjson and zlib).
bool have_json_stream();
// Reads `file`: an object of which `list` is a member, or the list itself. In memory is at most one piece of the text and
// its longest object. Throws InputError where there is no such file, or in a build without simdjson and zlib.
JsonStream stream_json(const std::filesystem::path& file, std::string_view list, JsonListReader& reader);

}  // namespace stepcast::text
