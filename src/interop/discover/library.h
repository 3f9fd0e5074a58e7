// A shared library of a driver, loaded when it is needed.
#pragma once

#include <dlfcn.h>

#include <memory>

namespace stepcast::interop {

class Library {
 public:
  explicit Library(const char* name)
      : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL),
                [](void* l) { return l == nullptr ? 0 : dlclose(l); }) {}
  explicit operator bool() const { return handle_ != nullptr; }
  // The function of this name; null where the library has none.
  template <class F>
  F symbol(const char* name) const {
    return reinterpret_cast<F>(dlsym(handle_.get(), name));
  }

 private:
  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace stepcast::interop
