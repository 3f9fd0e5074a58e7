// Parts that may be included by name: `h100-sxm`, `path/to/device.yaml`, {use: h100-sxm, memory: 96
// GB}, or fields.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tables.h"

namespace stepcast::config {

// A folder of configs/ and what its files hold.
template <class T>
struct Part {
  std::string folder;
  std::string noun;
  const Table<T>& (*table)();
};

const Part<job::Model>& model_part();
const Part<job::Device>& device_part();
const Part<job::Node>& node_part();
const Part<job::Fabric>& fabric_part();
const Part<job::Cluster>& cluster_part();

// The file of a folder of configs/ whose name is near to this one, as words for the end of a
// fault's message; "" where none is near enough.
std::string nearest(const std::string& name, const std::string& folder);

// The file that a name or path means, or nothing after a fault. Relative paths start at the file in
// which `value` was written.
std::optional<std::filesystem::path> find_file(Reader& reader, const Value& value,
                                               const std::string& folder, const std::string& noun);
// Whether it is a file of configs/. Those do not change while the program runs; others may.
bool is_preset(const std::filesystem::path& file);
// Pushes a file on reader.including; false, after a fault, if it is there already.
bool enter(Reader& reader, const Value& value, const std::filesystem::path& file);

// Writes down, beside the rates that a cluster states, those of the parts of configs/ that its
// names mean (hardware::at_named_rates).
void find_named_rates(job::Cluster& cluster);

// Reads the file that `name` means into `out`. T: one of the parts above.
template <class T>
void include(Reader& reader, const Value& name, T& out, const Part<T>& part);

template <class T>
Row named_row(std::size_t at, const char* key, const Part<T>& part, const char* description);

template <class S, class T>
Field<S> named(const char* key, T S::*member, const Part<T>& part, const char* description) {
  return {named_row<T>(offset_of(member), key, part, description)};
}

}  // namespace stepcast::config
