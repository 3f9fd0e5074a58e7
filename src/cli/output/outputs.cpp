#include "outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "../command_line/command_line.h"

namespace stepcast::cli {

void Outputs::add(std::string option, const std::string& target) {
  if (target.empty()) {
    return;
  }
  Form form{std::move(option), nullptr, ""};
  if (target != "-") {
    form.file = std::make_unique<OutputFile>(form.option, target);
  } else if (const auto other = std::find_if(forms_.begin(), forms_.end(),
                                             [](const Form& f) { return f.file == nullptr; });
             other != forms_.end()) {
    throw option_fault(form.option,
                       fmt::format("standard output is {}'s; expected a file", other->option));
  }
  forms_.push_back(std::move(form));
}

void Outputs::add(std::string option, const std::string& target, const std::string& text) {
  if (target.empty()) {
    return;
  }
  add(std::move(option), target);
  write(forms_.back(), text);
}

void Outputs::write(Form& form, const std::string& text) {
  if (form.file != nullptr) {
    form.file->write(text);
  } else {
    form.text = text;
  }
}

void Outputs::give(const std::string& option, const Text& text) {
  for (Form& form : forms_) {
    if (form.option == option) {
      write(form, text());
    }
  }
}

void Outputs::fill(const std::string& option, const Writer& writer) {
  for (Form& form : forms_) {
    if (form.option == option) {
      writer(form.file->file());
    }
  }
}

bool Outputs::for_people() const {
  return std::none_of(forms_.begin(), forms_.end(),
                      [](const Form& form) { return form.file == nullptr; });
}

void Outputs::finish(const std::string& command, const Text& people) {
  const auto printed = std::find_if(forms_.begin(), forms_.end(),
                                    [](const Form& form) { return form.file == nullptr; });
  const std::string text = printed == forms_.end() ? people() : printed->text;
  // Files first: a reader of standard output that leaves early (`| head`) ends the process.
  for (const Form& form : forms_) {
    if (form.file != nullptr) {
      form.file->commit();
    }
  }
  write_stdout(command, text);
}

Option& add_output(Command& app, std::string option, std::string& target, const std::string& help) {
  return app.add_option(std::move(option), target, help + " (- is standard output)")
      .type_name("FILE");
}

}  // namespace stepcast::cli
