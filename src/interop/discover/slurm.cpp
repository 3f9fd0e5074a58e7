// Reads Slurm's lists of nodes: `scontrol show nodes`, with records of KEY=VALUE words that begin
// with NodeName=, and `sinfo`, a table with a line of headings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "stepcast/interop/discover.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

struct SlurmWord {
  std::string text;
  Origin where;
};
using SlurmLine = std::vector<SlurmWord>;

std::vector<SlurmLine> lines_of(const std::filesystem::path& file) {
  std::vector<SlurmLine> out;
  std::istringstream in(text::read_text(file));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    out.emplace_back();
    std::size_t at = 0;
    while ((at = line.find_first_not_of(" \t\r", at)) != line.npos) {
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      out.back().push_back(
          {line.substr(at, end - at), {file.string(), number, static_cast<int>(at) + 1}});
      at = end;
    }
  }
  return out;
}

std::int64_t number_of(const std::string& text, const Origin& where, const char* what) {
  std::int64_t out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size() || out < 0) {
    throw InputError({where, fmt::format("{} is '{}'; expected a number", what, text)});
  }
  return out;
}

// Reads a node's GRES: "gpu:h100:8(S:0-1)", "gpu:8", "gpu:a100:4,nvme:1", "(null)".
void read_gres(const std::string& text, const Origin& where, NodeFacts& node) {
  std::string outside;  // the text without brackets, which state sockets
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : 0;
    outside += depth == 0 ? std::string(1, c) : "";
    depth -= c == ')' ? 1 : 0;
  }
  std::istringstream in(outside);
  for (std::string one; std::getline(in, one, ',');) {
    std::vector<std::string> parts;
    std::istringstream words(one);
    for (std::string part; std::getline(words, part, ':');) {
      parts.push_back(part);
    }
    if (parts.empty() || parts.front() != "gpu") {
      continue;
    }
    if (parts.size() == 3) {
      node.product = parts[1];
    }
    const bool counted =
        parts.size() > 1 && !parts.back().empty() && std::isdigit(parts.back().front()) != 0;
    if (!counted && parts.size() == 2) {
      node.product = parts[1];
    }
    node.gpus += counted ? static_cast<int>(number_of(parts.back(), where, "the GPUs of Gres")) : 1;
  }
  node.device = device_of_product(node.product);
}

// Whether jobs can run on a node in this state: not for "DOWN*", "IDLE+DRAIN", "drng", "maint".
bool usable(const std::string& state) {
  std::string low;
  for (const char c : state) {
    low += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array kBad = {"down", "drain", "drng",  "fail",     "maint",
                               "unk",  "inval", "power", "not_resp", "future"};
  return std::none_of(kBad.begin(), kBad.end(),
                      [&](const char* bad) { return low.find(bad) != low.npos; });
}

struct Wanted {
  std::set<std::string> names;
  bool takes(const std::string& name) const { return names.empty() || names.count(name) > 0; }
};

struct Collected {
  NodeList list;
  std::map<std::string, int> unusable;  // number of nodes by state
  int without_gpus = 0;
  std::set<std::string> seen;

  void add(NodeFacts node, const std::string& state, const Wanted& wanted) {
    if (!wanted.takes(node.name) || !seen.insert(node.name).second) {
      return;  // left out, or listed already for another partition
    }
    if (!state.empty() && !usable(state)) {
      ++unusable[state];
    } else if (node.gpus == 0) {
      ++without_gpus;
    } else {
      list.nodes.push_back(std::move(node));
    }
  }
};

Collected read_records(const std::vector<SlurmLine>& lines, const Wanted& wanted) {
  Collected out;
  NodeFacts node;
  std::string state;
  bool open = false;
  int threads = 1;
  const auto close = [&] {
    if (open) {
      node.cores /= std::max(1, threads);
      out.add(std::move(node), state, wanted);
    }
    node = {};
    state.clear();
    threads = 1;
  };
  for (const SlurmLine& line : lines) {
    for (const SlurmWord& word : line) {
      const std::size_t equals = word.text.find('=');
      if (equals == std::string::npos) {
        continue;  // the rest of a value with blanks, such as those of OS= and Reason=
      }
      const std::string key = word.text.substr(0, equals);
      const std::string value = word.text.substr(equals + 1);
      Origin where = word.where;
      where.column += static_cast<int>(equals) + 1;
      if (key == "NodeName") {
        close();
        open = true;
        node.name = value;
        node.where = word.where;
      } else if (!open) {
        throw InputError(
            {word.where,
             fmt::format("{} before NodeName=; expected what scontrol show nodes prints", key)});
      } else if (key == "Gres") {
        read_gres(value, where, node);
      } else if (key == "State") {
        state = value;
      } else if (key == "CPUTot") {
        node.cores = static_cast<int>(number_of(value, where, key.c_str()));
      } else if (key == "ThreadsPerCore") {
        threads = static_cast<int>(number_of(value, where, key.c_str()));
      } else if (key == "Sockets") {
        node.sockets = static_cast<int>(number_of(value, where, key.c_str()));
      } else if (key == "RealMemory") {
        node.host_memory = Bytes(number_of(value, where, key.c_str()) << 20);
      }
    }
  }
  close();
  return out;
}

Collected read_table(const std::vector<SlurmLine>& lines, const SlurmLine& header,
                     const Wanted& wanted) {
  const auto column = [&](const char* name) {
    const auto at = std::find_if(header.begin(), header.end(),
                                 [&](const SlurmWord& w) { return w.text == name; });
    return at == header.end() ? header.size() : static_cast<std::size_t>(at - header.begin());
  };
  const std::size_t names = column("NODELIST"), gres = column("GRES"), state = column("STATE");
  if (names == header.size() || gres == header.size()) {
    throw InputError(
        {header.front().where,
         "no NodeName= and no columns NODELIST and GRES; expected scontrol show nodes, or "
         "sinfo -o '%N %G %t'"});
  }
  Collected out;
  for (const SlurmLine& line : lines) {
    if (line.empty() || &line == &lines.front()) {
      continue;
    }
    if (line.size() != header.size()) {
      throw InputError(
          {line.front().where, fmt::format("{} columns; expected {} as in the first line",
                                           line.size(), header.size())});
    }
    for (const std::string& name : expand_hostlist(line[names].text, line[names].where)) {
      NodeFacts node;
      node.name = name;
      node.where = line[names].where;
      read_gres(line[gres].text, line[gres].where, node);
      out.add(std::move(node), state == header.size() ? "" : line[state].text, wanted);
    }
  }
  return out;
}

}  // namespace

NodeList read_slurm(const std::filesystem::path& file, const std::string& only) {
  std::vector<SlurmLine> lines = lines_of(file);
  std::erase_if(lines, [](const SlurmLine& line) { return line.empty(); });
  if (lines.empty()) {
    throw InputError(
        {{file.string(), 0, 0}, "empty; expected scontrol show nodes, or sinfo -o '%N %G %t'"});
  }
  Wanted wanted;
  if (!only.empty()) {
    const auto names = expand_hostlist(only, {"--nodelist", 0, 0});
    wanted.names.insert(names.begin(), names.end());
  }
  const bool records = lines.front().front().text.starts_with("NodeName=");
  Collected found =
      records ? read_records(lines, wanted) : read_table(lines, lines.front(), wanted);
  for (const auto& [state, count] : found.unusable) {
    found.list.notes.push_back(fmt::format("{} nodes are left out: {}", count, state));
  }
  if (found.without_gpus > 0) {
    found.list.notes.push_back(
        fmt::format("{} nodes without GPUs are left out", found.without_gpus));
  }
  for (const std::string& name : wanted.names) {
    if (found.seen.count(name) == 0) {
      throw InputError({{"--nodelist", 0, 0},
                        fmt::format("names {}, which {} does not have", name, file.string())});
    }
  }
  return std::move(found.list);
}

}  // namespace stepcast::interop
