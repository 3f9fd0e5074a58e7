// Reads files into options, and options into a job.
#include "stepcast/interop/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "options/draft.h"
#include "python/recipe.h"
#include "shell/shell.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop {

using launch::Draft;
using launch::Reader;
using launch::Rule;
using launch::Setting;
using launch::Unread;
using text::Value;

namespace fs = std::filesystem;

namespace {

const std::vector<const Reader*>& readers() {
  static const std::vector<const Reader*> all = {
      &launch::megatron(),        &launch::deepspeed(),    &launch::torchtitan(),
      &launch::accelerate(),      &launch::transformers(), &launch::paddlenlp(),
      &launch::colossalai(),      &launch::maxtext(),      &launch::composer(),
      &launch::horovod(),         &launch::nnscaler(),     &launch::lightseq(),
      &launch::patrickstar(),     &launch::axolotl(),      &launch::llamafactory(),
      &launch::megatron_bridge(), &launch::nemo(),         &launch::torchtune(),
      &launch::nanotron(),        &launch::primus()};
  return all;
}

const Reader& reader_of(const std::string& system) {
  std::vector<std::string> names;
  for (const Reader* reader : readers()) {
    if (reader->system == system) {
      return *reader;
    }
    names.emplace_back(reader->system);
  }
  throw InputError(Fault{{"--from", 0, 0},
                         fmt::format("'{}' is not a system whose files are read; expected {}{}",
                                     system, fmt::join(names, " | "), suggestion(system, names))});
}

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
    const std::string name = launch::canonical(text.substr(2, text.size() - 3));
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
      const auto more = launch::flatten(item, "list");
      settings.insert(settings.end(), more.begin(), more.end());
    }
  } else if (document.kind == Value::Kind::map) {
    settings = launch::flatten(document);
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
    Setting s{
        "model-config", input, document.origin, launch::scalar(input, document.origin, true), {}};
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
    return launch::flatten(text::parse_toml(source, name));
  }
  if (extension == ".args" || extension == ".txt") {
    return launch::settings_of(launch::read_flags(source, name, request.variables), reader.bare);
  }
  return std::nullopt;
}

// `settings` behind those of the recipe that recipe=NAME of the command line names, which is read
// with that.
std::vector<Setting> with_recipe(std::vector<Setting> settings,
                                 const std::vector<launch::RecipeFile>& files, const Reader& reader,
                                 std::vector<Setting>& above, std::vector<Fault>& remarks) {
  std::string function(reader.recipe);
  std::erase_if(above, [&](const Setting& s) {
    const bool names_it = s.name == "recipe";
    function = names_it ? launch::plain_text(s.value) : function;
    return names_it;
  });
  launch::Recipe recipe = launch::read_recipe(files, function);
  remarks.insert(remarks.end(), recipe.remarks.begin(), recipe.remarks.end());
  recipe.settings.insert(recipe.settings.end(), settings.begin(), settings.end());
  return std::move(recipe.settings);
}

std::vector<Setting> read_inputs(const LaunchRequest& request, const Reader& reader,
                                 std::vector<Fault>& remarks) {
  std::vector<Setting> out;
  std::vector<Setting> above;
  std::vector<std::string> scripts;
  std::vector<launch::RecipeFile> recipes;
  const auto append = [&](std::vector<Setting> more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  const auto append_script = [&](launch::Script script) {
    remarks.insert(remarks.end(), script.remarks.begin(), script.remarks.end());
    append(launch::settings_of(script.words, reader.bare));
  };
  for (const auto& [name, source] : request.texts) {
    if (reader.recipes && fs::path(name).extension() == ".py") {
      recipes.push_back({source, name});
    } else if (auto settings = settings_in(source, name, request, reader)) {
      append(std::move(*settings));
    } else {
      append_script(launch::run_script(source, name, request.variables));
    }
  }
  for (const std::string& input : request.inputs) {
    const std::string extension = fs::path(input).extension().string();
    if (is_argument(input)) {
      above.push_back(launch::argument(input));
    } else if (extension == ".json") {
      append(read_json(input, request));
    } else if (extension == ".yaml" || extension == ".yml") {
      const Value document = text::read_yaml(input);
      if (document.kind != Value::Kind::null) {
        append(structured(document, request.variables));
      }
    } else if (extension == ".toml") {
      append(launch::flatten(text::read_toml(input)));
    } else if (extension == ".args" || extension == ".txt") {
      append(*settings_in(text::read_text(input), input, request, reader));
    } else if (reader.recipes && extension == ".py") {
      recipes.push_back({text::read_text(input), input});
    } else {
      scripts.push_back(input);
    }
  }
  if (!scripts.empty()) {
    append_script(launch::run_scripts(scripts, request.variables));
  }
  if (!recipes.empty()) {
    out = with_recipe(std::move(out), recipes, reader, above, remarks);
  }
  out.insert(out.end(), above.begin(), above.end());
  return out;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) {
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  }
  return pattern == name;
}

const Unread* listed(const std::vector<const std::vector<Unread>*>& lists, std::string_view name) {
  for (const auto* list : lists) {
    for (const Unread& one : *list) {
      if (matches(one.name, name)) {
        return &one;
      }
    }
  }
  return nullptr;
}

const Rule* rule_of(const Reader& reader, std::string_view name) {
  for (const auto* list : reader.rules) {
    for (const Rule& rule : *list) {
      if (rule.name == name) {
        return &rule;
      }
    }
  }
  return nullptr;
}

bool is_flag_rule(const Rule& rule) {
  return rule.bare || rule.apply == launch::yes || rule.apply == launch::no;
}

bool known(const Reader& reader, std::string_view name) {
  return rule_of(reader, name) != nullptr || listed(reader.meaningless, name) != nullptr ||
         listed(reader.unmodelled, name) != nullptr;
}

// Adds the section of a file to options of a command line: --fsdp_version is
// fsdp_config.fsdp_version in a file.
void add_sections(const Reader& reader, std::vector<Setting>& settings) {
  for (Setting& s : settings) {
    if (known(reader, s.name)) {
      continue;
    }
    for (const auto section : reader.sections) {
      if (section == "*") {
        const std::string last = s.name.substr(s.name.rfind('.') + 1);
        if (known(reader, last)) {
          s.name = last;
        }
        break;
      }
      const std::string name = fmt::format("{}.{}", section, s.name);
      if (rule_of(reader, name) != nullptr) {
        s.name = name;
        break;
      }
    }
  }
}

void apply(Draft& draft, const Rule& rule, const Setting& setting) {
  // "${DIR}/x" is as unknown as $X; a flag takes no value.
  const bool left_open = !setting.open.empty();
  if (left_open && !is_flag_rule(rule)) {
    if (!rule.key.empty() && draft.overridden(rule.key)) {
      return;
    }
    const std::string& variable = setting.open.front();
    const bool command = variable.starts_with('$') || variable.starts_with('`');
    std::string how = command ? "" : fmt::format("--define {}=VALUE", variable);
    if (!rule.key.empty()) {
      how += fmt::format("{}--set {}=VALUE", how.empty() ? "" : " or ", rule.key);
    }
    draft.refuse(setting, fmt::format("{} depends on {}, which has no known value; expected {}",
                                      setting.shown, command ? variable : "$" + variable,
                                      how.empty() ? "a value" : how));
    return;
  }
  // "rms_norm: false" in a file means that the flag is not set.
  const bool off = rule.bare && rule.apply != launch::yes && rule.apply != launch::no &&
                   !launch::is_true(setting);
  if (off) {
    draft.meaningless(setting, "off");
  } else if (rule.apply != nullptr) {
    rule.apply(draft, setting, rule.key);
  } else if (!rule.key.empty()) {
    if (setting.value.kind == Value::Kind::null) {
      draft.refuse(setting, fmt::format("{} has no value; expected one", setting.shown));
    } else {
      draft.set(setting, rule.key, setting.value);
    }
  }
}

void classify(Draft& draft, const Reader& reader) {
  for (const Setting& s : draft.settings()) {
    if (const Rule* rule = rule_of(reader, s.name)) {
      if (!launch::says_nothing(s)) {
        apply(draft, *rule, s);
      }
    } else if (const Unread* unused = listed(reader.meaningless, s.name)) {
      draft.meaningless(s, unused->reason);
    } else if (const Unread* left = listed(reader.unmodelled, s.name)) {
      if (launch::says_nothing(s)) {
        draft.meaningless(s, "not set");
      } else {
        draft.unmodelled(s, left->reason);
      }
    } else {
      draft.unknown(s);
    }
  }
}

// Applies the request, which takes precedence over the inputs.
void apply_request(Draft& draft) {
  const LaunchRequest& request = draft.request();
  Value& job = draft.job();
  const auto use = [&](const std::string& option, const std::string& name) {
    const Origin where{option + " " + name, 0, 0};
    Value map;
    map.kind = Value::Kind::map;
    map.origin = where;
    map.entries.push_back({"use", where, launch::scalar(name, where, true)});
    return map;
  };
  if (!request.model.empty()) {
    draft.drop("model");
    Value map = use("--model", request.model);
    job.entries.push_back({"model", map.origin, map});
  }
  if (!request.cluster.empty()) {
    Value map = use("--cluster", request.cluster);
    if (const Value* found = draft.job().find("cluster"); found != nullptr) {
      for (const auto& entry : found->entries) {
        // How many slices of a torus there are is the file's, how many nodes the command line's.
        if (request.nodes == 0 || entry.key == "fabric") {
          map.entries.push_back(entry);
        }
      }
    }
    draft.drop("cluster");
    job.entries.push_back({"cluster", map.origin, map});
  }
  if (request.nodes > 0) {
    const Origin where{fmt::format("--nodes {}", request.nodes), 0, 0};
    for (auto& entry : job.entries) {
      if (entry.key == "cluster" && entry.value.kind == Value::Kind::map) {
        entry.value.entries.push_back(
            {"nodes", where, launch::scalar(fmt::format("{}", request.nodes), where)});
      }
    }
  }
}

// Checks the keys that every job needs; a fault names the option that sets the key.
void check_complete(Draft& draft, const std::string& inputs) {
  const auto missing = [&](const char* option, const std::string& what, const std::string& how) {
    draft.fault({option, 0, 0}, fmt::format("{} {}; expected {}", inputs, what, how));
  };
  const bool named =
      !draft.text("model.use").empty() || draft.overridden("model.use") ||
      (draft.value("model") != nullptr && draft.value("model")->kind == Value::Kind::scalar);
  if (!named) {
    std::vector<std::string> gaps;
    for (const char* key : {"layers", "hidden", "heads", "vocab"}) {
      if (!draft.stated("model." + std::string(key))) {
        gaps.emplace_back(key);
      }
    }
    if (gaps.size() == 4) {
      missing("--model", "names no model", "--model NAME, or --set model.layers=N and so on");
    } else {
      for (const std::string& key : gaps) {
        missing("--model", fmt::format("does not state the model's {}", key),
                fmt::format("--set model.{}=N, or --model NAME", key));
      }
    }
  }
  if (draft.request().cluster.empty() && !draft.overridden("cluster")) {
    missing("--cluster", "names no cluster", "--cluster NAME (simulate --list shows the names)");
  } else if (draft.ranks() == 0) {
    missing("--nodes", "does not state the number of nodes", "--nodes N");
  }
  if (!draft.stated("workload.sequence_length")) {
    missing("--set workload.sequence_length", "does not state the sequence length",
            "--set workload.sequence_length=N");
  }
  if (!draft.stated("workload.global_batch")) {
    missing("--set workload.global_batch", "does not state the batch",
            "--set workload.global_batch=N");
  }
}

}  // namespace

std::vector<std::string> launch_systems() {
  std::vector<std::string> names;
  for (const Reader* reader : readers()) {
    names.emplace_back(reader->system);
  }
  return names;
}

Launch read_launch(const LaunchRequest& request) {
  const Reader& reader = reader_of(request.system);
  if (request.inputs.empty() && request.texts.empty()) {
    throw InputError(
        Fault{{"--from " + request.system, 0, 0}, "no file follows; expected --from SYSTEM FILE"});
  }
  std::vector<Fault> remarks;
  std::vector<Setting> settings = read_inputs(request, reader, remarks);
  add_sections(reader, settings);
  Draft draft(request, std::move(settings));
  draft.preset = reader.preset;
  draft.launch().remarks = std::move(remarks);
  const std::string first =
      request.texts.empty() ? request.inputs.front() : request.texts.front().first;
  const Origin start{first, 1, 1};
  draft.job().origin = start;
  if (draft.settings().empty()) {
    throw InputError(
        Fault{start, fmt::format("no option of {} is in it; expected some", reader.system)});
  }
  classify(draft, reader);
  if (draft.faults().empty()) {
    reader.finish(draft);
    draft.ranks();  // sets the number of nodes from the number of processes
  }
  apply_request(draft);
  if (draft.faults().empty()) {
    check_complete(draft, first);
  }
  if (!draft.faults().empty()) {
    auto& faults = draft.faults();
    std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
      return (a.where.line == 0 ? 1 << 30 : a.where.line) <
             (b.where.line == 0 ? 1 << 30 : b.where.line);
    });
    throw InputError(faults);
  }
  if (!draft.overridden("assumed")) {  // an option that a launch file leaves out has its default
    Value none;
    none.kind = Value::Kind::sequence;
    none.origin = start;
    draft.job().entries.push_back({"assumed", start, std::move(none)});
  }
  if (!draft.overridden("system")) {
    Value system;
    system.kind = Value::Kind::map;
    system.entries.push_back({"use", start, launch::scalar(draft.preset, start, true)});
    system.origin = start;
    if (const Value* given = draft.job().find("system")) {
      system.entries.insert(system.entries.end(), given->entries.begin(), given->entries.end());
    }
    draft.drop("system");
    draft.job().entries.push_back({"system", start, std::move(system)});
  }
  return draft.finish();
}

namespace {

std::string unknown_text(const LaunchOption& option) {
  return fmt::format("unknown flag {}", option.name);
}

std::string unmodelled_text(const LaunchOption& option) {
  return fmt::format("{} is not modelled: {}", option.name, option.note);
}

}  // namespace

std::vector<std::string> warnings(const Launch& launch) {
  std::vector<std::string> out;
  for (const LaunchOption& option : launch.unknown) {
    out.push_back(fmt::format("{}: warning: {}: ignored in the forecast", to_string(option.origin),
                              unknown_text(option)));
  }
  for (const LaunchOption& option : launch.unmodelled) {
    out.push_back(fmt::format("{}: warning: {}: ignored in the forecast", to_string(option.origin),
                              unmodelled_text(option)));
  }
  for (const Fault& remark : launch.remarks) {
    out.push_back(fmt::format("{}: warning: {}", to_string(remark.where), remark.message));
  }
  return out;
}

std::vector<Fault> as_faults(const Launch& launch) {
  std::vector<Fault> out;
  for (const LaunchOption& option : launch.unknown) {
    out.push_back(
        {option.origin, unknown_text(option) + "; expected only flags that are known (--strict)"});
  }
  for (const LaunchOption& option : launch.unmodelled) {
    out.push_back({option.origin, unmodelled_text(option) +
                                      "; expected only options that are modelled (--strict)"});
  }
  for (const Fault& remark : launch.remarks) {
    out.push_back({remark.where, remark.message + " (--strict)"});
  }
  return out;
}

std::string describe(const Launch& launch) {
  std::string out;
  const auto list = [&](const char* title, const std::vector<LaunchOption>& options,
                        const char* mark) {
    out += fmt::format("# {}:{}\n", title, options.empty() ? " none" : "");
    for (const LaunchOption& option : options) {
      const std::string written =
          option.name + (option.value.empty() ? "" : " " + option.value.substr(0, 60));
      std::string line = fmt::format("#   {:<52} {}{}", written, mark, option.note);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  };
  list("launch options and the keys that they set", launch.translated, "-> ");
  list("launch options without meaning for a forecast", launch.meaningless, "");
  list("launch options that are not modelled", launch.unmodelled, "");
  list("unknown launch options", launch.unknown, "");
  return out;
}

}  // namespace stepcast::interop
