// Parts of the writer of Megatron-LM's arguments.
#pragma once

#include <string>
#include <vector>

#include "writer.h"

namespace stepcast::interop::launch {

// The command's arguments in their order; each group becomes a line.
class Arguments {
 public:
  void group() { lines_.emplace_back(); }
  void flag(std::string_view name) { add(fmt::format("--{}", name)); }
  template <class T>
  void value(std::string_view name, const T& value) {
    add(fmt::format("--{} {}", name, value));
  }
  void flag_if(bool condition, std::string_view name) {
    if (condition) {
      flag(name);
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void add(const std::string& text) { lines_.back() += (lines_.back().empty() ? "" : " ") + text; }
  std::vector<std::string> lines_;
};

void write_megatron_model(const Request& request, Arguments& out);
void write_megatron_parallel(const Request& request, Arguments& out);
void write_megatron_kernels(const Request& request, Arguments& out);

// The layers of virtual stages as a --pipeline-model-parallel-layout: "E|t|tt|L".
std::string megatron_layout(const std::vector<int>& layers);

}  // namespace stepcast::interop::launch
