#include <fmt/core.h>

#include "stepcast/config/config.h"
#include "tables.h"

namespace stepcast::config {

namespace {

const Origin* origin_of(const Loaded& loaded, const std::string& path) {
  const auto found = loaded.origins.find(path);
  return found == loaded.origins.end() ? nullptr : &found->second;
}

std::string comment(const Loaded& loaded, const std::string& path) {
  const Origin* where = origin_of(loaded, path);
  return where == nullptr ? "default" : to_string(*where);
}

// Lists and short maps on one line, as JSON, which is YAML.
std::string flow(const Value& v) {
  switch (v.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return v.quoted ? tree::to_json(v) : v.scalar;
    case Value::Kind::sequence: {
      std::string out = "[";
      for (const Value& item : v.items) {
        out += (out.size() > 1 ? ", " : "") + flow(item);
      }
      return out + "]";
    }
    case Value::Kind::map: {
      std::string out = "{";
      for (const auto& entry : v.entries) {
        out += (out.size() > 1 ? ", " : "") + entry.key + ": " + flow(entry.value);
      }
      return out + "}";
    }
  }
  return "";
}

void block(std::string& out, const Loaded& loaded, const Value& v, const Spec* spec,
           const std::string& path, int depth) {
  for (const auto& entry : v.entries) {
    const Spec* child = spec != nullptr ? spec->child(entry.key) : nullptr;
    const std::string below = path.empty() ? entry.key : path + "." + entry.key;
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    if (entry.value.kind == Value::Kind::map && child != nullptr && child->section) {
      out += fmt::format("{}{}:\n", indent, entry.key);
      block(out, loaded, entry.value, child, below, depth + 1);
    } else {
      const std::string line = fmt::format("{}{}: {}", indent, entry.key, flow(entry.value));
      out += fmt::format("{:<56} # {}\n", line, comment(loaded, below));
    }
  }
}

}  // namespace

std::string to_json(const job::Job& job) {
  return tree::to_json(write_table(job_table(), job)) + "\n";
}

std::string show(const Loaded& loaded) {
  std::string out;
  block(out, loaded, write_table(job_table(), loaded.job), &job_spec(), "", 0);
  return out;
}

std::string schema() {
  Value v = tree::map();
  tree::put(v, "$schema", tree::string("https://json-schema.org/draft/2020-12/schema"));
  tree::put(v, "title", tree::string("Stepcast job"));
  Value body = object_schema(job_spec().children);
  for (auto& entry : body.entries) {
    tree::put(v, entry.key, std::move(entry.value));
  }
  return tree::to_json(v) + "\n";
}

}  // namespace stepcast::config
