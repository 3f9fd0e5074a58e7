// Replaces the reader of large JSON documents in a build without simdjson or zlib.
#include "files.h"
#include "stepcast/text/json_stream.h"

namespace stepcast::text {

bool have_json_stream() { return false; }

JsonStream stream_json(const std::filesystem::path& file, std::string_view, JsonListReader&) {
  fail({file.string(), 0, 0},
       "this build reads no traces; install libsimdjson-dev and zlib1g-dev and build again");
}

}  // namespace stepcast::text
