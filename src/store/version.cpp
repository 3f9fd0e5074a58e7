// Identifies the build and the data that computed a store's results.
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "stepcast/base/fnv.h"
#include "stepcast/store/store.h"

namespace stepcast::store {
namespace {

struct Build {
  std::uintptr_t inside = 0;  // an address inside the loaded object whose id is wanted
  std::string id;
};

std::uintptr_t aligned(std::uintptr_t bytes) { return (bytes + 3) / 4 * 4; }

// Reads the GNU build id from the notes of the loaded object that contains `inside`. The id is the
// linker's digest of the object's code.
int visit(dl_phdr_info* info, std::size_t, void* out) {
  auto& build = *static_cast<Build*>(out);
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    const std::uintptr_t at = info->dlpi_addr + p.p_vaddr;
    mine = mine || (p.p_type == PT_LOAD && build.inside >= at && build.inside < at + p.p_memsz);
  }
  for (int i = 0; mine && i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    if (p.p_type != PT_NOTE) {
      continue;
    }
    const auto* at = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
    const char* const end = at + p.p_memsz;
    while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const body = name + aligned(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, ELF_NOTE_GNU, 4) == 0) {
        for (std::size_t k = 0; k < std::min<std::size_t>(note.n_descsz, 8); ++k) {
          build.id += fmt::format("{:02x}", static_cast<unsigned char>(body[k]));
        }
        return 1;
      }
      at = body + aligned(note.n_descsz);
    }
  }
  return mine ? 1 : 0;
}

const char anchor = 0;  // its address lies in this object

std::string build_id() {
  Build build;
  build.inside = reinterpret_cast<std::uintptr_t>(&anchor);
  dl_iterate_phdr(visit, &build);
  return build.id;
}

}  // namespace

std::string digest(std::string_view text) { return fmt::format("{:016x}", fnv1a(text)); }

std::string model_version(const std::filesystem::path& data_directory) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const char* folder :
       {"calibration", "configs/clusters", "configs/devices", "configs/fabrics", "configs/models",
        "configs/nodes", "configs/systems"}) {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(data_directory / folder, ignored)) {
      const std::string kind = entry.path().extension().string();
      if (entry.is_regular_file() && (kind == ".yaml" || kind == ".json" || kind == ".csv")) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::uint64_t hash = fnv1a("");
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    hash = fnv1a(file.lexically_relative(data_directory).string(), hash);
    hash = fnv1a(text, fnv1a(std::to_string(text.size()), hash));
  }
  return fmt::format("stepcast {}, build {}, data {:016x}", STEPCAST_VERSION, build_id(), hash);
}

}  // namespace stepcast::store
