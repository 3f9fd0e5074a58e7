#include "megatron.h"

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "readers.h"

namespace stepcast::interop::launch {

const Reader& megatron() {
  static const Reader reader = {
      "megatron",
      "megatron-lm",
      {&common_rules(), &megatron_model_rules(), &megatron_hybrid_rules(),
       &megatron_parallel_rules(), &megatron_kernel_rules(), &megatron_bf16_layer_rules(),
       &megatron_fork_rules(), &launcher_rules()},
      {&megatron_meaningless(), &launcher_options()},
      {&megatron_unmodelled()},
      [](Draft& d) {
        finish_megatron_model(d);
        finish_megatron_kernels(d);
        finish_megatron_parallel(d);
        finish_megatron_fork(d);
      },
      false,
      {"*"},  // sections of --yaml-cfg
  };
  return reader;
}

}  // namespace stepcast::interop::launch
