#include "readers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../megatron/readers.h"
#include "../systems/readers.h"
#include "../trainers/readers.h"
#include "stepcast/base/suggestion.h"

namespace stepcast::interop::launch {

const std::vector<const Reader*>& readers() {
  static const std::vector<const Reader*> all = {
      &megatron(),        &deepspeed(),  &torchtitan(),  &accelerate(), &transformers(),
      &paddlenlp(),       &colossalai(), &maxtext(),     &composer(),   &horovod(),
      &nnscaler(),        &lightseq(),   &patrickstar(), &axolotl(),    &llamafactory(),
      &megatron_bridge(), &nemo(),       &torchtune(),   &nanotron(),   &primus(),
      &automodel(),       &trl()};
  return all;
}

const Reader& reader_of(const std::string& system) {
  std::vector<std::string> names;
  for (const Reader* reader : readers()) {
    if (reader->system == system) {
      return *reader;
    }
    names.emplace_back(reader->system);
  }
  throw InputError(Fault{{"--from", 0, 0},
                         fmt::format("'{}' is not a system whose files are read; expected {}{}",
                                     system, fmt::join(names, " | "), suggestion(system, names))});
}

}  // namespace stepcast::interop::launch
