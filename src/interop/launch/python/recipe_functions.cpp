// Files of a recipe, their functions, and what they import.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "recipe_evaluator.h"

namespace stepcast::interop::launch {

namespace {

// Of what a recipe imports from folders of recipes, that which is part of it: other recipes, what
// they have in common (_pretrain_common, set_pipeline_layout), and constants. Classes and the
// precisions, optimizers and buffers that a recipe names are known by their names.
bool belongs_to_recipes(const PythonImport& import) {
  const std::string& name = import.name;
  const bool constant =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0; });
  const bool here = import.dots > 0 || import.module.find("recipes") != std::string::npos;
  return here && (constant || name.starts_with('_') || name.starts_with("set_") ||
                  name.ends_with("_config"));
}

}  // namespace

using Kind = PythonToken::Kind;

Evaluator::~Evaluator() {  // objects that hold each other
  for (const ItemPtr& one : changed_) {
    one->fields.clear();
  }
}

LoadedModule& Evaluator::load(const RecipeFile& file) {
  loaded_.push_back(std::make_unique<LoadedModule>());
  LoadedModule& out = *loaded_.back();
  out.module = parse_module(file);
  LoadedModule* const back = file_;
  const std::size_t at = at_;
  file_ = &out;
  for (const std::size_t line : out.module.statements) {
    statement(out.module.lines[line], out.globals);
  }
  file_ = back;
  at_ = at;
  return out;
}

void Evaluator::load_given(const RecipeFile& file) {
  given_.push_back(&load(file));
  std::error_code ignored;
  imports_[std::filesystem::absolute(file.name, ignored).lexically_normal().string()] =
      given_.back();
}

Recipe Evaluator::run(const std::string& name) {
  file_ = given_.back();
  const auto found = function(name);
  if (found.in == nullptr) {
    std::vector<std::string> shown;
    for (const std::string& f : file_->module.order) {
      if (!f.starts_with('_')) {
        shown.push_back(f);
      }
    }
    for (const auto& [known, import] : file_->module.imports) {
      if (shown.empty() && known.ends_with("_config")) {
        shown.push_back(known);
      }
    }
    throw InputError(Fault{
        {"recipe", 0, 0},
        name.empty() ? fmt::format("is not stated; expected recipe={}", fmt::join(shown, " | "))
                     : fmt::format("'{}' is no function of the recipes; expected {}", name,
                                   fmt::join(shown, " | "))});
  }
  const ItemPtr result = call(found, {});
  if (result != nullptr) {
    write_settings(*result, out_.settings, out_.doubts);
  }
  return std::move(out_);
}

Evaluator::Found Evaluator::function(const std::string& name) {
  LoadedModule* in = file_;
  std::string own = name;
  for (std::size_t hops = 0; in != nullptr && hops < kMostImports; ++hops) {
    const auto found = in->module.functions.find(own);
    if (found != in->module.functions.end()) {
      return {in, found->second};
    }
    in = behind_import(*in, own);
  }
  for (auto given = given_.rbegin(); given != given_.rend(); ++given) {
    const auto known = (*given)->module.functions.find(name);
    if (known != (*given)->module.functions.end()) {
      return {*given, known->second};
    }
  }
  return {};
}

LoadedModule* Evaluator::behind_import(const LoadedModule& in, std::string& name) {
  const auto found = in.module.imports.find(name);
  if (found == in.module.imports.end() || !belongs_to_recipes(found->second)) {
    return nullptr;
  }
  name = found->second.name;
  return imported(found->second, in);
}

LoadedModule* Evaluator::imported(const PythonImport& import, const LoadedModule& by) {
  const std::optional<RecipeFile> file = imported_file(import, by.module.name);
  if (!file) {
    return nullptr;
  }
  const auto [at, fresh] = imports_.try_emplace(file->name, nullptr);
  if (fresh && imports_.size() <= kMostImports) {
    at->second = &load(*file);
  }
  return at->second;
}

ItemPtr Evaluator::call(const Found& f, const Arguments& arguments) {
  const auto& [positional, named, open] = arguments;
  work();
  file_ = f.in;
  const PythonLine& def = file_->module.lines[f.function.line];
  if (++calls_ > kDeepestRecipe) {
    throw InputError(
        Fault{token_of(def).origin, "functions call each other too deeply; expected 16 levels"});
  }
  Names names;
  at_ = def.begin + 2;
  std::size_t place = 0;
  int stars = 0;              // ahead of the present parameter
  bool by_name_only = false;  // what comes behind * or *rest
  for (at_ += is("(") ? 1 : 0; !ends() && !is(")");) {
    if (token().kind != Kind::name) {
      stars = is("*") ? stars + 1 : 0;
      by_name_only = by_name_only || stars > 0;
      ++at_;
      continue;
    }
    const std::string name = token().text;
    ++at_;
    skip_to([&] { return is("="); });
    ItemPtr value = item(Item::Type::unknown, token().origin);
    if (stars == 1 && !open) {
      const std::size_t used = std::min(place, positional.size());
      value = list_of({positional.begin() + static_cast<std::ptrdiff_t>(used), positional.end()},
                      token().origin);
    } else if (stars == 2 && !open) {
      value = item(Item::Type::object, token().origin);
      for (const auto& [other, given] : named) {
        if (!names.contains(other)) {
          put_field(*value, other, given);
        }
      }
    } else if (is("=")) {
      ++at_;
      if (!open) {
        value = expression(file_->globals);
      } else {
        skip_to([] { return false; });
      }
    }
    names[name] = place < positional.size() && !by_name_only ? positional[place] : value;
    ++place;
    stars = 0;
    at_ += is(",") ? 1 : 0;
  }
  for (const auto& [name, value] : named) {
    names[name] = value;
  }
  ItemPtr result;
  block(f.function.line + 1, f.function.end, names, result);
  --calls_;
  return result;
}

}  // namespace stepcast::interop::launch
