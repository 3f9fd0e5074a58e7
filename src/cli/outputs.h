// What a subcommand writes: each result in the forms that were asked for, or as text for people.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "output.h"

namespace stepcast::cli {

// One result in several forms. Files are opened when declared, so that nothing is computed in vain,
// and appear together at the end. At most one form takes standard output ("-"); then the text for
// people is left out.
class Outputs {
 public:
  using Text = std::function<std::string()>;

  // A form that `option` asks for; an empty `target`: not asked for. Throws InputError where the
  // file cannot be written, or where standard output is another's.
  void add(std::string option, const std::string& target);
  // Fills the form of `option`; `text` is called only where it was asked for.
  void give(const std::string& option, const Text& text);
  // Prints what goes to standard output, `people` where nothing else does, and puts the files in
  // place.
  void finish(const std::string& command, const Text& people);

 private:
  struct Form {
    std::string option;
    std::unique_ptr<OutputFile> file;  // null: standard output
    std::string text;                  // for standard output
  };
  std::vector<Form> forms_;
};

}  // namespace stepcast::cli
