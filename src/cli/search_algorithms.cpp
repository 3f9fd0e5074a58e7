#include "search_algorithms.h"

#include <algorithm>

#include "command_line.h"
#include "commands.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

int compare_algorithms(const AlgorithmOptions& given, const search::Request& request,
                       const job::Job& base, const search::JobLoader& loader,
                       const std::string& title, OutputFile* file, bool to_stdout) {
  search::AlgorithmRequest asked;
  asked.names =
      given.names == std::vector<std::string>{"all"} ? search::algorithm_names() : given.names;
  if (!given.seed.empty()) {
    asked.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  }
  result::Algorithms answers =
      search::run_algorithms(request, asked, base, loader, text::data_directory());
  answers.title = title;
  if (file != nullptr) {
    file->write(report::json(answers));
  }
  write_stdout("search", to_stdout
                             ? report::json(answers)
                             : report::terminal(answers, terminal_colour(), terminal_width()));
  if (file != nullptr) {
    file->commit();
  }
  return std::any_of(answers.answers.begin(), answers.answers.end(),
                     [](const auto& a) { return a.found && a.strategy.fits; })
             ? done
             : cannot_run;
}

}  // namespace stepcast::cli
