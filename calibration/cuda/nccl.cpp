#include "nccl.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace stepcast::harness::cuda {
namespace {

constexpr int kMaxChannels = 64;  // MAXCHANNELS of NCCL 2.x

// Sets or clears an environment variable during its lifetime.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) {
      before_ = before;
    }
    apply(value.empty() ? nullptr : value.c_str());
  }
  ~Setting() { apply(before_ ? before_->c_str() : nullptr); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  void apply(const char* value) const {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

ncclConfig_t config_of(int channels) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (channels > 0) {
    config.minCTAs = channels;
    config.maxCTAs = channels;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    config.nvlsCTAs = channels;
#endif
  }
  return config;
}

// Not destroyed at exit, since the driver may already be unloaded; close_collectives() destroys it.
std::unique_ptr<Communicator>& kept() {
  static auto* const one = new std::unique_ptr<Communicator>();
  return *one;
}

}  // namespace

void check(ncclResult_t result, const char* what, ncclComm_t comm) {
  if (result == ncclSuccess) {
    return;
  }
  std::string text = std::string(what) + ": " + ncclGetErrorString(result);
  if (const char* more = ncclGetLastError(comm); more != nullptr && *more != '\0') {
    text += std::string(" (") + more + ")";
  }
  if (result == ncclInvalidArgument || result == ncclInvalidUsage) {
    throw Unsupported(text);
  }
  throw std::runtime_error(text);
}

std::string error_elsewhere(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  const ncclResult_t worst = asked != ncclSuccess ? asked : state;
  return worst == ncclSuccess || worst == ncclInProgress
             ? std::string()
             : std::string("NCCL: ") + ncclGetErrorString(worst);
}

Communicator::Communicator(Team& team, CommunicatorKey key)
    : key_(std::move(key)), comms_(team.size(), nullptr) {
  if (key_.channels > kMaxChannels) {
    throw Unsupported(std::to_string(key_.channels) + " channels; NCCL has at most " +
                      std::to_string(kMaxChannels));
  }
  // The first call into NCCL also reads its configuration files, which must not overwrite the
  // variables that are cleared below.
  ncclUniqueId id{};
  if (world().rank == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  }
  team.party().broadcast(&id, sizeof id);
  const Setting algo("NCCL_ALGO", key_.algo);
  const Setting proto("NCCL_PROTO", key_.proto);
  try {
    team.together([&](Slot& slot) {
      ncclConfig_t config = config_of(key_.channels);
      ncclComm_t& comm = comms_[static_cast<std::size_t>(slot.index)];
      check(ncclCommInitRankConfig(&comm, key_.ranks, id, slot.rank, &config), "ncclCommInitRank");
    });
  } catch (...) {
    for (ncclComm_t comm : comms_) {
      if (comm != nullptr) {
        (void)ncclCommAbort(comm);
      }
    }
    throw;
  }
}

Communicator::~Communicator() {
  // NCCL's guide requires one after another for a process with several GPUs.
  for (ncclComm_t comm : comms_) {
    (void)(broken_ ? ncclCommAbort(comm) : ncclCommDestroy(comm));
  }
}

Communicator& communicator(Team& team, const CommunicatorKey& key) {
  end_communicator_unless(key);
  if (!kept()) {
    kept() = std::make_unique<Communicator>(team, key);
  }
  return *kept();
}

void end_communicator_unless(const CommunicatorKey& key) {
  if (kept() && !(kept()->key() == key)) {
    kept().reset();
  }
}

void abandon_communicator() {
  if (kept()) {
    kept()->broken_ = true;
    kept().reset();
  }
}

void close_collectives() { kept().reset(); }

}  // namespace stepcast::harness::cuda
