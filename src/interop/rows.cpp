// Reading rows of published data, and taking each apart.
#include <algorithm>
#include <array>
#include <utility>

#include "fields.h"
#include "known_model.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {
namespace {

using text::Value;

// Fields that no job may depend on. `verified` and `gpu` only repeat what others say, but for the
// device of a row that measures an operator; p20 and p80 are measured.
constexpr std::array kNotConfiguration{
    std::string_view{"id"},          std::string_view{"source"},
    std::string_view{"value"},       std::string_view{"other_metrics"},
    std::string_view{"notes"},       std::string_view{"metric"},
    std::string_view{"memory_kind"}, std::string_view{"flops_convention"},
    std::string_view{"verified"},    std::string_view{"gpu"},
    std::string_view{"inferred"},    std::string_view{"command"},
    std::string_view{"p20"},         std::string_view{"p80"}};

void drop(Value& map, std::string_view key) {
  std::erase_if(map.entries, [&](const Value::Entry& entry) { return entry.key == key; });
}

Value* child(Value& map, std::string_view key) {
  const auto at = std::find_if(map.entries.begin(), map.entries.end(),
                               [&](const Value::Entry& entry) { return entry.key == key; });
  return at == map.entries.end() ? nullptr : &at->value;
}

Value copy_of(Fields field) { return field.value() == nullptr ? Value{} : *field.value(); }

// A model that states no shape of its own is a published one, whose shape its name stands for: the
// file takes the name's place, so that what follows sees a shape and no name.
void publish(Value& model, const std::string& name) {
  const Fields fields(&model);
  if (fields["arch"].present() || fields["layers"].present() || fields["hidden"].present()) {
    return;
  }
  if (const auto file = known_model(name)) {
    Value value;
    value.kind = Value::Kind::scalar;
    value.scalar = *file;
    value.quoted = true;
    value.origin = model.origin;
    Value::Entry entry;
    entry.key = "published";
    entry.value = std::move(value);
    model.entries.push_back(std::move(entry));
  }
}

}  // namespace

PublishedRow take_apart(const Value& row, const std::string& file) {
  if (row.kind != Value::Kind::map) {
    throw InputError(Fault{row.origin, "not a row of published data; expected a JSON object"});
  }
  const Fields all(&row);
  if (!all["metric"].present()) {
    throw InputError(
        Fault{row.origin,
              "'metric' is missing; expected a row of published data, with a metric and "
              "a value"});
  }
  PublishedRow out;
  out.identity = {all["id"].text(), all["source"].text(), file, row.origin.line};
  out.output = {all["metric"].text(), all["memory_kind"].text(), all["job"]["flops"].text()};
  out.measured = {copy_of(all["value"]), copy_of(all["other_metrics"])};

  Value configuration = row;
  for (const std::string_view key : kNotConfiguration) {
    if (key != "gpu" || !all["level"].present()) {
      drop(configuration, key);
    }
  }
  if (Value* model = child(configuration, "model")) {
    publish(*model, all["model"]["name"].text());
    drop(*model, "name");
  }
  if (Value* job = child(configuration, "job")) {
    drop(*job, "flops");
  }
  out.configuration.fields = std::move(configuration);
  return out;
}

std::vector<PublishedRow> read_rows(const std::filesystem::path& file) {
  std::vector<PublishedRow> rows;
  for (const Value& row : text::read_json_lines(file)) {
    rows.push_back(take_apart(row, file.string()));
  }
  return rows;
}

}  // namespace stepcast::interop
