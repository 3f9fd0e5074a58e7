#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "../options/draft.h"
#include "../python/recipe.h"
#include "../shell/shell.h"

namespace stepcast::interop::launch {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& name) {
  std::error_code error;
  return fs::exists(name, error);
}

bool is_argument(const std::string& input) {
  return input.find('=') != std::string::npos && !is_file(input);
}

// Replaces "${a.b}" by the value of a.b in the same file, and Primus's "${NAME:default}" by a
// variable or its default.
void interpolate(std::vector<Setting>& settings, const std::vector<std::string>& variables) {
  for (Setting& s : settings) {
    const std::string text = s.value.scalar;
    if (s.value.kind != Value::Kind::scalar || !text.starts_with("${") || !text.ends_with('}')) {
      continue;
    }
    if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
      const std::string variable = text.substr(2, colon - 2) + "=";
      s.value.scalar = text.substr(colon + 1, text.size() - colon - 2);
      for (const std::string& given : variables) {
        if (given.starts_with(variable)) {
          s.value.scalar = given.substr(variable.size());
        }
      }
      s.value.quoted = false;
      continue;
    }
    const std::string name = canonical(text.substr(2, text.size() - 3));
    const auto found = std::find_if(settings.begin(), settings.end(),
                                    [&](const Setting& other) { return other.name == name; });
    if (found == settings.end() || found->value.scalar == text) {
      s.open.push_back(text.substr(2, text.size() - 3));
      s.value.scalar.clear();
    } else {
      const Origin where = s.value.origin;
      s.value = found->value;
      s.value.origin = where;
    }
  }
}

// The settings of a document. Those of a list of maps follow each other, below the name "list".
std::vector<Setting> structured(const Value& document, const std::vector<std::string>& variables) {
  std::vector<Setting> settings;
  if (document.kind == Value::Kind::sequence) {
    for (const Value& item : document.items) {
      const auto more = flatten(item, "list");
      settings.insert(settings.end(), more.begin(), more.end());
    }
  } else if (document.kind == Value::Kind::map) {
    settings = flatten(document);
  } else {
    throw InputError(
        Fault{document.origin, "is not a map of options; expected NAME: VALUE for each"});
  }
  interpolate(settings, variables);
  return settings;
}

// A template's words that a script replaces (CONFIG_BATCH_SIZE) are variables.
void fill_in(Value& value, const std::vector<std::string>& variables,
             std::vector<std::string>& open) {
  for (auto& entry : value.entries) {
    fill_in(entry.value, variables, open);
  }
  const bool word =
      value.kind == Value::Kind::scalar && !value.quoted && value.scalar.size() > 1 &&
      std::all_of(
          value.scalar.begin(), value.scalar.end(),
          [](char c) { return (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9'); }) &&
      !(value.scalar[0] >= '0' && value.scalar[0] <= '9');
  if (!word) {
    return;
  }
  for (const std::string& variable : variables) {
    if (variable.starts_with(value.scalar + "=")) {
      value.scalar = variable.substr(value.scalar.size() + 1);
      return;
    }
  }
  open.push_back(value.scalar);
}

std::vector<Setting> read_json(const std::string& input, const LaunchRequest& request) {
  Value document;
  std::vector<std::string> open;
  try {
    document = text::read_json(input);
  } catch (const InputError&) {
    // Such a template is not JSON, but YAML can read it; words in capitals show that it is a
    // template.
    try {
      document = text::read_yaml(input);
    } catch (const InputError&) {
      document = {};
    }
    std::vector<std::string> words;
    fill_in(document, {}, words);
    if (words.empty()) {
      throw;
    }
    fill_in(document, request.variables, open);
  }
  if (document.find("architectures") != nullptr || document.find("model_type") != nullptr) {
    Setting s{"model-config", input, document.origin, scalar(input, document.origin, true), {}};
    return {s};
  }
  std::vector<Setting> settings = structured(document, request.variables);
  for (Setting& s : settings) {
    if (s.value.kind == Value::Kind::scalar && !s.value.quoted &&
        std::find(open.begin(), open.end(), s.value.scalar) != open.end()) {
      s.open.push_back(s.value.scalar);
      s.value.scalar.clear();
    }
  }
  return settings;
}

// The settings of a document whose format follows from the name's extension; nullopt for a script.
std::optional<std::vector<Setting>> settings_in(const std::string& source, const std::string& name,
                                                const LaunchRequest& request,
                                                const Reader& reader) {
  const std::string extension = fs::path(name).extension().string();
  if (extension == ".json") {
    return structured(text::parse_json(source, name), request.variables);
  }
  if (extension == ".yaml" || extension == ".yml") {
    const Value document = text::parse_yaml(source, name);
    return document.kind == Value::Kind::null ? std::vector<Setting>()
                                              : structured(document, request.variables);
  }
  if (extension == ".toml") {
    return flatten(text::parse_toml(source, name));
  }
  if (extension == ".args" || extension == ".txt") {
    return settings_of(read_flags(source, name, request.variables), reader.bare);
  }
  return std::nullopt;
}

// The settings of the recipe, and behind them `settings`. The command line (`above`) may name the
// recipe's function by recipe=NAME or, as torchtitan does, config=NAME, which is then removed from
// it; a script by --config NAME.
std::vector<Setting> with_recipe(std::vector<Setting> settings,
                                 const std::vector<RecipeFile>& files, const Reader& reader,
                                 std::vector<Setting>& above, std::vector<Setting>& doubts,
                                 std::vector<Fault>& remarks) {
  std::string function(reader.recipe);
  const auto names_it = [&](const Setting& s) {
    const bool it = s.name == "recipe" || s.name == "config";
    function = it ? plain_text(s.value) : function;
    return it;
  };
  std::erase_if(settings, [&](const Setting& s) { return s.name == "config" && names_it(s); });
  std::erase_if(above, names_it);
  Recipe recipe = read_recipe(files, function);
  remarks.insert(remarks.end(), recipe.remarks.begin(), recipe.remarks.end());
  doubts = std::move(recipe.doubts);
  recipe.settings.insert(recipe.settings.end(), settings.begin(), settings.end());
  return std::move(recipe.settings);
}

}  // namespace

std::vector<Setting> settings_of_document(const std::string& input, const LaunchRequest& request) {
  const std::string extension = fs::path(input).extension().string();
  if (extension == ".toml") {
    return flatten(text::read_toml(input));
  }
  if (extension != ".yaml" && extension != ".yml") {
    return read_json(input, request);
  }
  const Value document = text::read_yaml(input);
  return document.kind == Value::Kind::null ? std::vector<Setting>()
                                            : structured(document, request.variables);
}

std::vector<Setting> settings_in_json(const std::string& source, const std::string& name,
                                      const LaunchRequest& request) {
  return structured(text::parse_json(source, name), request.variables);
}

std::vector<Setting> read_inputs(const LaunchRequest& request, const Reader& reader,
                                 std::vector<Setting>& doubts, std::vector<Fault>& remarks) {
  std::vector<Setting> out;
  std::vector<Setting> above;
  std::vector<Setting> behind;  // flags that are given behind a script
  std::vector<std::string> scripts;
  std::vector<RecipeFile> recipes;
  const auto append = [&](std::vector<Setting> more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  const auto append_script = [&](Script script) {
    remarks.insert(remarks.end(), script.remarks.begin(), script.remarks.end());
    append(settings_of(script.words, reader.bare));
  };
  for (const auto& [name, source] : request.texts) {
    if (reader.recipes && fs::path(name).extension() == ".py") {
      recipes.push_back({source, name});
    } else if (auto settings = settings_in(source, name, request, reader)) {
      append(std::move(*settings));
    } else {
      append_script(run_script(source, name, request.variables));
    }
  }
  for (const std::string& input : request.inputs) {
    const std::string extension = fs::path(input).extension().string();
    if (is_argument(input)) {
      above.push_back(argument(input));
    } else if (extension == ".json" || extension == ".yaml" || extension == ".yml" ||
               extension == ".toml") {
      append(settings_of_document(input, request));
    } else if (extension == ".args" || extension == ".txt") {
      const auto flags = *settings_in(text::read_text(input), input, request, reader);
      auto& to = scripts.empty() ? out : behind;
      to.insert(to.end(), flags.begin(), flags.end());
    } else if (reader.recipes && extension == ".py") {
      recipes.push_back({text::read_text(input), input});
    } else {
      scripts.push_back(input);
    }
  }
  if (!scripts.empty()) {
    append_script(run_scripts(scripts, request.variables));
  }
  append(std::move(behind));
  if (!recipes.empty()) {
    out = with_recipe(std::move(out), recipes, reader, above, doubts, remarks);
  }
  out.insert(out.end(), above.begin(), above.end());
  return out;
}

}  // namespace stepcast::interop::launch
