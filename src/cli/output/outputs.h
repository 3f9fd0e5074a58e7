// What a subcommand writes: each result in the forms that were asked for, or as text for people.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../command_line/arguments.h"
#include "output.h"

namespace stepcast::cli {

// One result in several forms. Files are opened when declared, so that nothing is computed in vain,
// and appear together at the end. At most one form takes standard output ("-"); then the text for
// people is left out.
class Outputs {
 public:
  using Text = std::function<std::string()>;
  using Writer = std::function<void(stepcast::OutputFile&)>;

  // A form that `option` asks for; an empty `target`: not asked for. Throws InputError where the
  // file cannot be written, or where standard output is another's.
  void add(std::string option, const std::string& target);
  // The same of a form whose text is known already; an option may name several such files.
  void add(std::string option, const std::string& target, const std::string& text);
  // Fills the form of `option`; `text` is called only where it was asked for.
  void give(const std::string& option, const Text& text);
  // The same of a form that is always a file, by a writer of its own.
  void fill(const std::string& option, const Writer& writer);
  // Puts the files in place, and then prints what goes to standard output: `people` where nothing
  // else does.
  void finish(const std::string& command, const Text& people);
  // No form goes to standard output, which people read then.
  bool for_people() const;

 private:
  struct Form {
    std::string option;
    std::unique_ptr<OutputFile> file;  // null: standard output
    std::string text;                  // for standard output
  };
  static void write(Form& form, const std::string& text);
  std::vector<Form> forms_;
};

// The option of one form: a file, or "-". `help`: "write the report as JSON".
Option& add_output(Command& app, std::string option, std::string& target, const std::string& help);

}  // namespace stepcast::cli
