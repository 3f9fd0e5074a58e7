// The keys that a training system sets, each with the source that its line states as a comment.
#include <algorithm>
#include <map>

#include "named.h"
#include "stepcast/config/config.h"
#include "system_document.h"

namespace stepcast::config {

namespace {

// Lines of files, each of which is read once.
class Files {
 public:
  // The comment at the end of a line; '#' within quotes does not begin one.
  std::string comment(const Origin& where) {
    auto found = lines_.find(where.file);
    if (found == lines_.end()) {
      found = lines_.emplace(where.file, split(text::read_text(where.file))).first;
    }
    if (where.line < 1 || where.line > static_cast<int>(found->second.size())) {
      return "";
    }
    const std::string& line = found->second[static_cast<std::size_t>(where.line) - 1];
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      quoted = quoted != (line[i] == '"');
      if (line[i] == '#' && !quoted && i > 0 && line[i - 1] == ' ') {
        const auto begin = line.find_first_not_of(' ', i + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
      }
    }
    return "";
  }

 private:
  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> out;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      out.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return out;
  }
  std::map<std::string, std::vector<std::string>> lines_;
};

std::string text_of(const Value& v) {
  switch (v.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return v.scalar;
    case Value::Kind::sequence: {
      std::string out;
      for (const Value& item : v.items) {
        out += (out.empty() ? "" : ", ") + text_of(item);
      }
      return "[" + out + "]";
    }
    case Value::Kind::map:
      break;
  }
  return "{}";
}

void collect(const Value& v, const std::string& path, Files& files,
             std::vector<SystemDefault>& out) {
  if (v.kind != Value::Kind::map || v.entries.empty()) {
    out.push_back({path, text_of(v), files.comment(v.origin), v.origin});
    return;
  }
  for (const auto& entry : v.entries) {
    const std::string key = path.empty() ? entry.key : path + "." + entry.key;
    if (key == "system.name" || key == "system.cannot" || key == "system.survey") {
      continue;
    }
    collect(entry.value, key, files, out);
  }
}

}  // namespace

std::vector<SystemDefault> system_defaults(const std::string& name) {
  Reader reader;
  Value value = tree::string(name);
  value.origin = {name, 0, 0};
  const Value doc = system_document(reader, value);
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  std::vector<SystemDefault> out;
  Files files;
  collect(doc, "", files, out);
  return out;
}

std::string system_alias(const std::string& name) {
  Reader reader;
  Value value = tree::string(name);
  value.origin = {name, 0, 0};
  const auto file = find_file(reader, value, "systems", "training system");
  if (!file) {
    throw InputError(reader.faults());
  }
  const Value doc = text::read_yaml(*file, kBiggestJob);
  const Value* use = doc.find("use");
  return use != nullptr && doc.entries.size() == 1 ? use->scalar : "";
}

}  // namespace stepcast::config
