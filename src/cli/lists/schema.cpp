// simulate schema: JSON Schema of a job file or of a line of measured runs, for editors.
#include <memory>

#include "../command_line/command_line.h"
#include "../output/output.h"
#include "commands.h"
#include "stepcast/config/config.h"
#include "stepcast/runs/read.h"

namespace stepcast::cli {

Run add_schema(Command& app) {
  auto runs = std::make_shared<bool>(false);
  app.add_flag("--runs", *runs, "print the schema of a line of measured runs instead of a job's");
  app.footer =
      "Examples:\n"
      "  simulate schema > stepcast.schema.json\n"
      "  simulate schema --runs > runs.schema.json";
  return [runs] {
    std::string text = *runs ? runs::schema() : config::schema();
    if (!text.empty() && text.back() != '\n') {
      text += '\n';
    }
    write_stdout("schema", text);
    return static_cast<int>(done);
  };
}

}  // namespace stepcast::cli
