// The matrix that `nvidia-smi topo -m` prints: a row and a column for each GPU and NIC; a cell
// states how the two are joined.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "stepcast/interop/discover.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

struct Word {
  std::string text;
  int column = 1;
};

// The words of a line. Colours that nvidia-smi writes to terminals are skipped.
std::vector<Word> words(const std::string& line) {
  std::vector<Word> out;
  std::string now;
  int from = 1;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    const char c = i < line.size() ? line[i] : ' ';
    if (c == '\x1b') {
      i = line.find('m', i);
      if (i == line.npos) {
        break;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      if (!now.empty()) {
        out.push_back({now, from});
      }
      now.clear();
      continue;
    }
    from = now.empty() ? static_cast<int>(i) + 1 : from;
    now += c;
  }
  return out;
}

// The number after a name: 3 for "GPU3" and "GPU"; else -1.
int numbered(const std::string& text, std::string_view name) {
  int out = -1;
  if (text.starts_with(name)) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + name.size(), end, out);
    return error == std::errc() && stop == end ? out : -1;
  }
  return -1;
}

bool is_cell(const std::string& text) {
  static const std::set<std::string> known = {"X", "SYS", "NODE", "PHB", "PXB", "PIX"};
  return known.count(text) > 0 || numbered(text, "NV") > 0;
}

}  // namespace

NodeList read_nvidia_smi_topology(const std::filesystem::path& file) {
  std::istringstream in(text::read_text(file));
  NodeList out;
  NodeFacts node;
  std::vector<Word> header;
  std::vector<std::vector<int>> links;  // of each GPU to each GPU
  std::set<std::string> numa;
  int gpus = 0, nics = 0;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::vector<Word> row = words(line);
    if (header.empty()) {
      if (!row.empty() && numbered(row.front().text, "GPU") == 0) {
        header = row;
        for (const Word& w : header) {
          gpus += numbered(w.text, "GPU") >= 0 ? 1 : 0;
          nics += numbered(w.text, "NIC") >= 0 || w.text.starts_with("mlx5_") ? 1 : 0;
        }
        node.where = {file.string(), number, header.front().column};
      }
      continue;
    }
    const int gpu = row.empty() ? -1 : numbered(row.front().text, "GPU");
    if (gpu < 0) {
      continue;
    }
    if (gpu != static_cast<int>(links.size())) {
      throw InputError({{file.string(), number, row.front().column},
                        fmt::format("row {}; expected GPU{}", row.front().text, links.size())});
    }
    std::vector<int> of;
    for (int other = 0; other < gpus + nics; ++other) {
      const auto at = static_cast<std::size_t>(other) + 1;
      const Origin where = {file.string(), number,
                            at < row.size() ? row[at].column : static_cast<int>(line.size()) + 1};
      if (at >= row.size() || !is_cell(row[at].text)) {
        throw InputError(
            {where, fmt::format("{}; expected X, SYS, NODE, PHB, PXB, PIX or NV and a number",
                                at < row.size() ? "'" + row[at].text + "'"
                                                : std::string("a cell is missing"))});
      }
      if (other < gpus) {
        of.push_back(std::max(0, numbered(row[at].text, "NV")));
      }
    }
    links.push_back(std::move(of));
    const auto affinity = static_cast<std::size_t>(gpus + nics) + 2;
    if (affinity < row.size() && row[affinity].text != "N/A") {
      numa.insert(row[affinity].text);
    }
  }
  if (header.empty() || static_cast<int>(links.size()) != gpus) {
    throw InputError(
        {{file.string(), 0, 0},
         header.empty()
             ? std::string("no line of GPU0 GPU1 ...; expected what nvidia-smi topo -m prints")
             : fmt::format("{} rows of {} GPUs", links.size(), gpus)});
  }
  node.gpus = gpus;
  node.nics = nics;
  node.sockets = static_cast<int>(numa.size());
  // With switches, every pair shows all links of a GPU; in a mesh it shows those of the pair.
  bool alike = gpus > 2;
  for (int i = 0; i < gpus; ++i) {
    int sum = 0;
    for (int j = 0; j < gpus; ++j) {
      const int n = links[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
      sum += n;
      alike = alike && (i == j || n == links[0][1]);
      if (j > i && n > 0) {
        node.mesh.push_back({i, j, n});
      }
    }
    node.nvlinks = i == 0 ? sum : std::min(node.nvlinks, sum);
  }
  // A GPU has at most 18 links (Blackwell). With switches, the links of all pairs of a GPU add up
  // to more.
  constexpr int kMaxLinks = 18;
  if (alike && links[0][1] > 0 && node.nvlinks > kMaxLinks) {
    node.switched = true;
    node.nvlinks = links[0][1];
    node.mesh.clear();
  }
  out.notes.push_back(fmt::format("{} names no GPUs and no rates", file.string()));
  out.nodes.push_back(std::move(node));
  return out;
}

}  // namespace stepcast::interop
