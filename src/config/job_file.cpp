#include "stepcast/config/job_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "merge.h"
#include "stepcast/schedule/schedule.h"
#include "tables.h"

namespace stepcast::config {

namespace {

namespace fs = std::filesystem;

// Settings with the same meaning get one spelling.
job::Job normal(job::Job job) {
  job::Parallelism& p = job.parallelism;
  const int model = p.tensor * p.pipeline * p.context;
  if (!p.data && model > 0) {
    p.data = job.cluster.ranks() / model;
  }
  if (!p.schedule) {
    p.schedule.emplace();
    p.schedule->name = schedule::implied(p.virtual_pipeline);
  }
  if (p.shard_size == p.data) {
    p.shard_size = std::nullopt;
  }
  return job;
}

bool is_section(const Value& value, const Spec* spec) {
  return value.kind == Value::Kind::map && spec != nullptr && spec->section && !spec->one_of;
}

// Calls visit(key, value) for every key that is no section.
template <class Visit>
void leaves(const Value& map, const Spec& spec, const std::string& above, const Visit& visit) {
  for (const auto& entry : map.entries) {
    const std::string key = above.empty() ? entry.key : above + "." + entry.key;
    const Spec* child = spec.child(entry.key);
    if (is_section(entry.value, child)) {
      leaves(entry.value, *child, key, visit);
    } else {
      visit(key, entry.value);
    }
  }
}

const Value* at(const Value& root, std::string_view path) {
  const Value* value = &root;
  while (value != nullptr) {
    const std::size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    if (dot == std::string_view::npos) {
      return value;
    }
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

// A file of configs/clusters and so on, not a ready job of configs/ itself.
bool is_part(const std::string& file) {
  const fs::path configs = text::data_directory() / "configs";
  const std::string folder = configs.string() + "/";
  return file.starts_with(folder) && file.find('/', folder.size()) != std::string::npos;
}

bool offers(const char* kind, const std::string& name) {
  const auto names = list(kind);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value use(const std::string& name) {
  Value map = tree::map();
  tree::put(map, "use", tree::string(name));
  return map;
}

// Keys that were written for this job rather than in its named parts; `wanted` has the values.
Value stated(const Loaded& loaded, const Value& wanted, bool named_system) {
  const job::Job& job = loaded.job;
  Value doc = tree::map();
  if (offers("models", job.model.name)) {
    tree::put(doc, "model", use(job.model.name));
  }
  if (offers("clusters", job.cluster.name)) {
    tree::put(doc, "cluster", use(job.cluster.name));
  }
  if (named_system && offers("systems", job.system.name)) {
    tree::put(doc, "system", use(job.system.name));
  }
  const Value names = doc;
  leaves(wanted, job_spec(), "", [&](const std::string& key, const Value& value) {
    const auto found = loaded.origins.find(key);
    const std::string section = key.substr(0, key.find('.'));
    const bool named = names.find(section) != nullptr;
    const bool whole = !named && (section == "model" || section == "cluster");
    const bool by_user = found != loaded.origins.end() && !is_part(found->second.file) &&
                         !(named && key == section + ".name");
    if (whole || by_user) {
      set_path(doc, key, value, job_spec());
    }
  });
  return doc;
}

std::optional<Loaded> read(const Value& doc) {
  try {
    return parse(doc);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Adds keys that `doc` lacks until it gives the job; false if it does not.
bool complete(Value& doc, const Loaded& loaded, const Value& wanted) {
  constexpr int kRounds = 4;  // a key may change the defaults of others
  for (int round = 0; round < kRounds; ++round) {
    const auto read_back = read(doc);
    if (!read_back) {
      return false;
    }
    const auto missing = differences(loaded.job, read_back->job);
    const job::System& system = read_back->job.system;
    if (missing.empty() && system.launch_stated == loaded.job.system.launch_stated &&
        system.layer_overhead_stated == loaded.job.system.layer_overhead_stated) {
      return true;
    }
    for (const Difference& one : missing) {
      const Value* value = at(wanted, one.key);
      set_path(doc, one.key, value == nullptr ? tree::null() : *value, job_spec());
    }
  }
  return false;
}

// Whether YAML reads a word as a string.
bool plain(const std::string& text) {
  static const std::vector<std::string> kOthers = {"true", "false", "null", "yes", "no",
                                                   "on",   "off",   "y",    "n",   "~"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                     }) &&
         std::find(kOthers.begin(), kOthers.end(), lower) == kOthers.end();
}

std::string inline_text(const Value& value) {
  std::string out;
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return value.quoted && !plain(value.scalar) ? tree::to_json(value) : value.scalar;
    case Value::Kind::sequence:
      for (const Value& item : value.items) {
        out += (out.empty() ? "" : ", ") + inline_text(item);
      }
      return "[" + out + "]";
    case Value::Kind::map:
      for (const auto& entry : value.entries) {
        out += (out.empty() ? "" : ", ") + entry.key + ": " + inline_text(entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

void write(std::string& out, const Value& map, const Spec& spec, int depth) {
  constexpr std::size_t kWidth = 90;
  for (const auto& entry : map.entries) {
    const Spec* child = spec.child(entry.key);
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    const bool bare = entry.value.entries.size() == 1 && entry.value.entries[0].key == "use";
    const std::string short_text =
        inline_text(bare ? entry.value.entries.front().value : entry.value);
    const bool nested = is_section(entry.value, child) && !bare &&
                        (short_text.size() > kWidth || (depth == 0 && !child->named));
    if (nested) {
      out += fmt::format("{}{}:\n", indent, entry.key);
      write(out, entry.value, *child, depth + 1);
    } else {
      out += fmt::format("{}{}: {}\n", indent, entry.key, short_text);
    }
  }
}

// Keys in the order of the option table.
void sort(Value& map, const Spec& spec) {
  const auto place = [&](const std::string& key) {
    const auto found = std::find_if(spec.children.begin(), spec.children.end(),
                                    [&](const Spec& child) { return child.key == key; });
    return found - spec.children.begin();
  };
  std::stable_sort(map.entries.begin(), map.entries.end(),
                   [&](const auto& a, const auto& b) { return place(a.key) < place(b.key); });
  for (auto& entry : map.entries) {
    const Spec* child = spec.child(entry.key);
    if (is_section(entry.value, child)) {
      sort(entry.value, *child);
    }
  }
}

// Relative paths become absolute, so that the job file can be moved.
void make_absolute(Value& doc) {
  if (Value* files = tree::find(doc, "calibration")) {
    for (Value& item : files->items) {
      std::error_code error;
      if (fs::exists(item.scalar, error)) {
        item.scalar = fs::weakly_canonical(item.scalar, error).string();
      }
    }
  }
}

}  // namespace

std::vector<Difference> differences(const job::Job& wanted, const job::Job& found) {
  const Value a = write_table(job_table(), normal(wanted));
  const Value b = write_table(job_table(), normal(found));
  std::vector<Difference> out;
  const auto text = [](const Value* value) {
    return value == nullptr ? "null" : inline_text(*value);
  };
  leaves(a, job_spec(), "", [&](const std::string& key, const Value& value) {
    const Value* other = at(b, key);
    if (text(&value) != text(other)) {
      out.push_back({key, text(&value), text(other)});
    }
  });
  // Keys that only the other job has, because a section is null in the first.
  leaves(b, job_spec(), "", [&](const std::string& key, const Value& value) {
    const std::string section = key.substr(0, key.rfind('.'));
    const bool known = std::any_of(out.begin(), out.end(), [&](const Difference& d) {
      return d.key == section || section.starts_with(d.key + ".");
    });
    if (at(a, key) == nullptr && !known) {
      out.push_back({key, "null", text(&value)});
    }
  });
  return out;
}

text::Value resolved(const job::Job& job) { return write_table(job_table(), job); }

std::string job_file(const Loaded& loaded) {
  const Value wanted = resolved(loaded.job);
  Value doc;
  bool done = false;
  // A job that names no system has its defaults without its limits.
  const std::string& name = loaded.job.system.name;
  const bool limited =
      !loaded.job.system.cannot.empty() || !offers("systems", name) || system(name).cannot.empty();
  for (const bool named_system : {limited, !limited}) {
    doc = stated(loaded, wanted, named_system);
    if (complete(doc, loaded, wanted)) {
      done = true;
      break;
    }
  }
  if (!done) {
    doc = wanted;
  }
  make_absolute(doc);
  sort(doc, job_spec());
  std::string out;
  write(out, doc, job_spec(), 0);
  const auto read_back = read(text::parse_yaml(out, "job"));
  if (!read_back || !differences(loaded.job, read_back->job).empty()) {
    throw InputError(Fault{{"job", 0, 0},
                           "its file does not read back as the same job: a fault of Stepcast; "
                           "expected none"});
  }
  return out;
}

}  // namespace stepcast::config
