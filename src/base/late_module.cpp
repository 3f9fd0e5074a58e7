#include "stepcast/base/late_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace stepcast {

void* function_of_module(const std::string& name, const char* function) {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto folder = (program.parent_path() / "../lib/stepcast").lexically_normal();
  // Global, as if the program itself were linked to the libraries: Open MPI's plug-ins look there
  // for its functions. A second call finds the module open.
  void* module = ::dlopen((folder / (name + ".so")).c_str(), RTLD_LAZY | RTLD_GLOBAL);
  void* found = module == nullptr ? nullptr : ::dlsym(module, function);
  if (found == nullptr) {
    const char* why = ::dlerror();
    throw ModuleMissing("a part of this program cannot be opened: " +
                        std::string(why != nullptr ? why : function));
  }
  return found;
}

}  // namespace stepcast
