// simulate man: manual pages of the commands in roff, from the tables of commands and options.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../command_line/command_line.h"
#include "../output/output.h"
#include "commands.h"
#include "stepcast/base/suggestion.h"

namespace stepcast::cli {
namespace {

// A command with the names above it: "simulate", "calibrate", "nccl".
struct ManPage {
  const Command* command;
  std::vector<std::string> names;
};

std::string joined(const std::vector<std::string>& names, char mark) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : std::string(1, mark)) + name;
  }
  return out;
}

// Text that roff prints as it stands: no character of it is a request or an escape, and a dash is
// the one that is typed.
std::string roff(std::string_view text) {
  std::string out;
  bool first = true;
  for (const char c : text) {
    if (first && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    first = c == '\n';
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

bool is_positional(const Option& option) { return option.name.front() != '-'; }

// What stands for an option's value: "KEY=VALUE", and what it held before.
std::string value_of(const Option& option) {
  if (std::holds_alternative<bool*>(option.target)) {
    return "";
  }
  return option.type.empty() ? "TEXT" : option.type;
}

std::string default_of(const Option& option) {
  const auto* text = std::get_if<std::string*>(&option.target);
  return option.shows_default && text != nullptr && !(**text).empty()
             ? fmt::format(" The default is {}.", roff(**text))
             : "";
}

std::string sentence(std::string_view help) {
  std::string out(help);
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out + (out.back() == '.' ? "" : ".");
}

std::string option_entry(const Option& option) {
  const std::string value = value_of(option);
  if (is_positional(option)) {
    return fmt::format(".TP\n\\fI{}\\fR\n{}{}\n", roff(value), roff(sentence(option.help)),
                       default_of(option));
  }
  std::string names;
  for (std::size_t at = 0; at < option.name.size();) {
    const std::size_t comma = std::min(option.name.find(',', at), option.name.size());
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ",
                         roff(option.name.substr(at, comma - at)));
    at = comma + 1;
  }
  return fmt::format(".TP\n{}{}\n{}{}\n", names,
                     value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(value)),
                     roff(sentence(option.help)), default_of(option));
}

// A footer's lines by what they are: examples as they stand, exit statuses, and the rest.
std::string footer_sections(const std::string& footer) {
  std::string notes, examples, statuses;
  std::string* into = &notes;
  for (std::size_t at = 0; at < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    const bool indented = line.starts_with("  ");
    if (line == "Examples:" || line == "Example:") {
      into = &examples;
      continue;
    }
    if (line.starts_with("Exit status")) {
      into = &statuses;
    } else if (!indented && into == &examples) {
      into = &notes;
    }
    *into += indented ? fmt::format(".nf\n{}\n.fi\n", roff(line)) : roff(line) + "\n";
  }
  std::string out;
  for (const auto& [name, text] :
       {std::pair{"NOTES", &notes}, {"EXIT STATUS", &statuses}, {"EXAMPLES", &examples}}) {
    out += text->empty() ? "" : fmt::format(".SH {}\n{}", name, *text);
  }
  return out;
}

std::string synopsis(const ManPage& page) {
  std::string out = fmt::format("\\fB{}\\fR [OPTIONS]", roff(joined(page.names, ' ')));
  for (const Option& option : page.command->options) {
    if (is_positional(option)) {
      out += fmt::format(" [\\fI{}\\fR]", roff(value_of(option)));
    }
  }
  return out + (page.command->commands.empty() ? "" : " [\\fICOMMAND\\fR ...]");
}

std::string man_text(const ManPage& page) {
  const Command& command = *page.command;
  const std::string name = joined(page.names, '-');
  std::string out = fmt::format(
      ".TH {} 1 \"\" \"stepcast {}\" \"Stepcast\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n",
      upper(roff(name)), STEPCAST_VERSION, roff(name), roff(command.summary), synopsis(page));
  out += fmt::format(".SH DESCRIPTION\n{}\n", roff(sentence(command.summary)));
  for (const Command& below : command.commands) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(below.name), roff(sentence(below.summary)));
  }
  out += ".SH OPTIONS\n";
  for (const Option& option : command.options) {
    out += option_entry(option);
  }
  out += ".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nPrint a summary of the options.\n";
  if (!command.version.empty()) {
    out += ".TP\n\\fB\\-\\-version\\fR\nPrint the version.\n";
  }
  out += footer_sections(command.footer);
  std::vector<std::string> others;
  if (page.names.size() > 1) {
    others.push_back(
        joined(std::vector<std::string>(page.names.begin(), page.names.end() - 1), '-'));
  }
  for (const Command& below : command.commands) {
    others.push_back(name + "-" + below.name);
  }
  if (!others.empty()) {
    out += ".SH SEE ALSO\n";
    for (const std::string& other : others) {
      out += fmt::format(".BR {} (1){}\n", roff(other), other == others.back() ? "" : ",");
    }
  }
  return out;
}

void add_pages(const ManPage& page, std::vector<ManPage>& out) {
  out.push_back(page);
  for (const Command& below : page.command->commands) {
    ManPage one{&below, page.names};
    one.names.push_back(below.name);
    add_pages(one, out);
  }
}

struct ManOptions {
  std::vector<std::string> words;
  std::string output;
};

ManPage page_named(const std::vector<ManPage>& pages, const std::vector<std::string>& words) {
  std::vector<std::string> names = {pages.front().names.front()};
  names.insert(names.end(), words.begin(), words.end());
  std::vector<std::string> known;
  for (const ManPage& page : pages) {
    if (page.names == names) {
      return page;
    }
    known.push_back(joined({page.names.begin() + 1, page.names.end()}, ' '));
  }
  const std::string word = joined(words, ' ');
  throw option_fault(word, fmt::format("unknown command; expected one that simulate --help lists{}",
                                       suggestion(word, known)));
}

int run_man(const ManOptions& given, const Command& program) {
  std::vector<ManPage> pages;
  add_pages({&program, {program.name}}, pages);
  if (given.output.empty()) {
    write_stdout("man", man_text(page_named(pages, given.words)));
    return done;
  }
  for (const ManPage& page : pages) {
    const std::filesystem::path folder = given.output;
    OutputFile file("--output", folder / (joined(page.names, '-') + ".1"));
    file.write(man_text(page));
    file.commit();
  }
  return done;
}

}  // namespace

Run add_man(Command& app, const Command& program) {
  auto given = std::make_shared<ManOptions>();
  app.add_option("command", given->words, "the command whose page is printed; left out: simulate's")
      .type_name("COMMAND ...");
  app.add_option("--output", given->output,
                 "write the pages of all commands into this folder, which exists")
      .type_name("DIR");
  app.footer =
      "Examples:\n"
      "  simulate man search | man -l -\n"
      "  simulate man calibrate nccl";
  return [given, &program] { return run_man(*given, program); };
}

}  // namespace stepcast::cli
