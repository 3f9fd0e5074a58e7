// A shared library that a driver brings, asked for when it is needed.
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
  // Null where the library has none of this name.
  template <class F>
  F symbol(const char* name) const {
    return reinterpret_cast<F>(dlsym(handle_.get(), name));
  }

 private:
  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace stepcast::interop
