// simulate schema: JSON Schema of a job file, for editors.
#include "commands.h"
#include "output.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {

Run add_schema(Command& app) {
  app.footer = "Example:\n  simulate schema > stepcast.schema.json";
  return [] {
    std::string text = config::schema();
    if (!text.empty() && text.back() != '\n') {
      text += '\n';
    }
    write_stdout("schema", text);
    return static_cast<int>(done);
  };
}

}  // namespace stepcast::cli
