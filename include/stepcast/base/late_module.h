// Parts of the program that few commands need and whose libraries take the loader longer than a lower bound takes to
// compute: modules beside the program, opened when they are first used.
#pragma once

#include <stdexcept>
#include <string>

namespace stepcast {

// A module that cannot be opened: the installation is not whole, or a library that it needs is missing.
struct ModuleMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The function `function` of the module `name`, which is lib/stepcast/NAME.so beside the folder of the running program
// (stepcast_module() of scripts/cmake/stepcast.cmake). It stays open until the process ends. Throws ModuleMissing.
void* function_of_module(const std::string& name, const char* function);

// The same as a pointer to a function of type F. The module's source and its caller take F from one header.
template <class F>
F* late_function(const std::string& name, const char* function) {
  return reinterpret_cast<F*>(function_of_module(name, function));
}

}  // namespace stepcast
