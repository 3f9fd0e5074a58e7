// The readers of launch files: each system's, on the bytes as a YAML file, as flags, as a script
// and as a recipe in Python.
#include "stepcast/interop/launch.h"

#include <string_view>

#include "fuzz.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(fuzz::text(data, size));
  for (const std::string& system : interop::launch_systems()) {
    for (const char* name : {"launch.yaml", "launch.args", "launch.sh", "launch.py"}) {
      fuzz::read([&] {
        interop::LaunchRequest request;
        request.system = system;
        request.texts = {{name, source}};
        if (std::string_view(name).ends_with(".py")) {
          request.inputs = {"recipe=recipe"};
        }
        request.cluster = "dgx-h100";
        request.nodes = 2;
        const interop::Launch launch = interop::read_launch(request);
        fuzz::require(launch.job.kind == text::Value::Kind::map, "a job that is no map");
      });
    }
  }
  return 0;
}
