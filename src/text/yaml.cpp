// Reads YAML through yaml-cpp's event interface. Its node tree hides two faults: it silently keeps
// the first of duplicate keys, and an alias inside its own anchor makes a cycle. The events show
// both.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_set>

#include "files.h"
#include "image.h"
#include "stepcast/text/document.h"
#include "stepcast/text/shipped.h"

namespace stepcast::text {
namespace {

class Builder : public YAML::EventHandler {
 public:
  // Aliases may multiply a document's values, but not without a bound ("billion laughs").
  Builder(const std::string& name, std::size_t bytes)
      : name_(name), most_values_(std::max<std::size_t>(10'000, 4 * bytes)) {}

  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value v = start(Value::Kind::null, mark);
    // The mark of "key:" without a value is that of whatever follows. The place of the key itself
    // is more useful in a message.
    if (!open_.empty() && open_.back().has_key && open_.back().key.origin.line != v.origin.line) {
      v.origin = open_.back().key.origin;
    }
    finish(std::move(v), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      fail(place(mark), "an alias is inside the value that it names; expected no cycle");
    }
    Value copy = known->second.value;
    count(known->second.values, mark);
    if (open_.size() + static_cast<std::size_t>(known->second.depth) > kDepthLimit) {
      too_deep(place(mark));
    }
    deepest_ = std::max(deepest_, static_cast<int>(open_.size()) + known->second.depth);
    finish(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Value v = start(Value::Kind::scalar, mark);
    check_tag(tag, v.origin);
    v.scalar = text;
    // yaml-cpp gives plain scalars the tag "?" and quoted ones "!".
    v.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    finish(std::move(v), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Value::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Value::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Value value;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // the map has read a key but not yet its value
    Value key;
    std::unordered_set<std::string> keys;
    std::size_t values_before = 0;
    int outer_deepest = 0;
  };
  struct Anchored {
    Value value;
    std::size_t values = 0;
    int depth = 0;  // nested levels of lists and maps
  };

  // Marks of yaml-cpp count from 0.
  Origin place(const YAML::Mark& mark) const { return {name_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] static void too_deep(Origin where) {
    fail(std::move(where),
         fmt::format("is nested too deeply; expected at most {} levels", kDepthLimit));
  }

  static void check_tag(const std::string& tag, const Origin& where) {
    if (!tag.empty() && tag != "?" && tag != "!" && !tag.starts_with("tag:yaml.org,2002:")) {
      fail(where, fmt::format("has the tag '{}'; expected a value without a tag", tag));
    }
  }

  void count(std::size_t values, const YAML::Mark& mark) {
    values_ += values;
    if (values_ > most_values_) {
      fail(place(mark), "aliases multiply beyond measure; expected a document of moderate size");
    }
  }

  Value start(Value::Kind kind, const YAML::Mark& mark) {
    count(1, mark);
    Value v;
    v.kind = kind;
    v.origin = place(mark);
    return v;
  }

  void open(Value::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    Open level;
    level.values_before = values_;
    level.value = start(kind, mark);
    check_tag(tag, level.value.origin);
    if (open_.size() >= kDepthLimit) {
      too_deep(level.value.origin);
    }
    level.anchor = anchor;
    level.outer_deepest = deepest_;
    open_.push_back(std::move(level));
    deepest_ = static_cast<int>(open_.size());
  }

  void close() {
    Open level = std::move(open_.back());
    open_.pop_back();
    const int depth = deepest_ - static_cast<int>(open_.size());
    deepest_ = std::max(deepest_, level.outer_deepest);
    if (level.anchor != 0) {
      anchors_[level.anchor] = {level.value, values_ - level.values_before, depth};
    }
    place_in_parent(std::move(level.value));
  }

  void finish(Value v, YAML::anchor_t anchor) {
    if (anchor != 0) {
      anchors_[anchor] = {v, 1, 0};
    }
    place_in_parent(std::move(v));
  }

  void place_in_parent(Value v) {
    if (open_.empty()) {
      root_ = std::move(v);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.kind == Value::Kind::sequence) {
      parent.value.items.push_back(std::move(v));
    } else if (!parent.has_key) {
      take_key(parent, std::move(v));
    } else {
      parent.value.entries.push_back({parent.key.scalar, parent.key.origin, std::move(v)});
      parent.has_key = false;
    }
  }

  static void take_key(Open& map, Value key) {
    if (key.kind != Value::Kind::scalar) {
      fail(key.origin, "is not a name; expected a key of plain text");
    }
    if (!map.keys.insert(key.scalar).second) {
      const auto first = std::find_if(map.value.entries.begin(), map.value.entries.end(),
                                      [&](const Value::Entry& e) { return e.key == key.scalar; });
      fail(key.origin, fmt::format("duplicate key '{}'; expected it once (first at line {})",
                                   key.scalar, first->origin.line));
    }
    map.key = std::move(key);
    map.has_key = true;
  }

  std::string name_;
  std::size_t most_values_;
  std::size_t values_ = 0;
  int deepest_ = 0;  // nesting levels of the deepest value inside the open collections
  Value root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
};

}  // namespace

Value parse_yaml(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  std::istringstream in{std::string(text)};
  Builder builder(name, text.size());
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) {
      Value nothing;
      nothing.origin = {name, 1, 1};
      return nothing;
    }
    Builder second(name, text.size());
    if (parser.HandleNextDocument(second)) {
      fail(second.take().origin, "a second document begins; expected one");
    }
  } catch (const YAML::Exception& e) {
    const bool known = !e.mark.is_null();
    // yaml-cpp 0.8 adds the name of the anchor and 0.7 does not. The message drops it: the position
    // is enough.
    const std::string_view no_anchor = "the referenced anchor is not defined";
    const std::string_view message =
        std::string_view(e.msg).substr(0, no_anchor.size()) == no_anchor ? no_anchor
                                                                         : std::string_view(e.msg);
    fail({name, known ? e.mark.line + 1 : 1, known ? e.mark.column + 1 : 1},
         fmt::format("malformed YAML: {}", message));
  }
  return builder.take();
}

std::optional<Value> read_shipped(const std::filesystem::path& file, std::string_view without) {
  return built_image().document(read_file(file, kBiggestText), file.string(), without);
}

Value read_yaml(const std::filesystem::path& file, std::size_t most) {
  const std::string text = read_file(file, most);
  if (auto known = built_image().document(text, file.string())) {
    return *std::move(known);
  }
  return parse_yaml(text, file.string());
}

}  // namespace stepcast::text
