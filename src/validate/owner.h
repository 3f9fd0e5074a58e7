// Decides which device a row of a kernel table belongs to.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/job/job.h"
#include "stepcast/text/cells.h"
#include "stepcast/text/document.h"

namespace stepcast::validate {

// Compares the `gpu` column with the requested device. A name that configs/ does not know is
// accepted as that device if the file contains no other name.
class Owner {
 public:
  Owner(const job::Device& device, const text::Table& table, int column) {
    std::set<std::string> names;
    for (const auto& row : table.rows) {
      names.insert(row[static_cast<std::size_t>(column)]);
    }
    const auto known = config::list("devices");
    for (const std::string& name : names) {
      ours_[name] = names.size() == 1;
      for (const std::string& stem : spellings(name)) {
        if (std::find(known.begin(), known.end(), stem) != known.end()) {
          ours_[name] = config::device(stem).name == device.name;
          break;
        }
      }
    }
  }
  bool ours(const std::string& name) const { return ours_.at(name); }

  // Spells "NVIDIA H100 SXM" and "a100-sxm-80g" as configs/ would.
  static std::vector<std::string> spellings(const std::string& name) {
    std::string base = text::plain(name);
    if (base.starts_with("nvidia-")) {
      base.erase(0, 7);
    }
    std::vector<std::string> out{base};
    for (const std::string_view unit : {"gb", "g"}) {
      if (base.ends_with(unit)) {
        out.push_back(base.substr(0, base.size() - unit.size()));
      }
    }
    return out;
  }

 private:
  std::map<std::string, bool> ours_;
};

}  // namespace stepcast::validate
