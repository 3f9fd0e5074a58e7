#include "collective_team.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

namespace stepcast::harness::cuda {
namespace {

// No collective of a case takes this long: a rank has died or hangs.
constexpr auto kPatience = std::chrono::seconds(120);
constexpr int kBetweenChecks = 4096;  // number of polls between two checks

// Thrown in slots that stop because another one failed; the other slot's failure is reported.
struct Abandoned : std::runtime_error {
  Abandoned() : std::runtime_error("another rank failed") {}
};

// GPUs of this process in the order in which they get ranks.
std::vector<int> order_of_gpus(const Context& context, int ranks) {
  int visible = 0;
  check(cudaGetDeviceCount(&visible), "cudaGetDeviceCount");
  std::vector<int> gpus = own_gpus(world(), visible);
  // A process without others starts with the first GPU, and always includes the one it was opened
  // on.
  const auto first = gpus.begin() + std::min<std::ptrdiff_t>(ranks, std::ssize(gpus));
  if (const auto at = std::find(first, gpus.end(), context.gpu); at != gpus.end()) {
    std::iter_swap(first - 1, at);
  }
  return gpus;
}

}  // namespace

Slot::~Slot() {
  if (own && own->stream != nullptr) {
    (void)cudaStreamDestroy(own->stream);
  }
}

Team::Team(Context& context, int ranks, int nodes) : gpu_(context.gpu), ranks_(ranks) {
  const std::vector<int> order = order_of_gpus(context, std::max(ranks, 1));
  const std::vector<Member> alone{{0, static_cast<int>(order.size())}};
  const std::vector<Seat> all = seats(members().empty() ? alone : members(), ranks, nodes);
  std::vector<std::pair<int, int>> mine;  // rank, GPU
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].process == world().rank) {
      mine.emplace_back(static_cast<int>(rank), order.at(static_cast<std::size_t>(all[rank].gpu)));
    }
  }
  party_ = std::make_unique<Party>(!mine.empty());
  for (const auto& [rank, gpu] : mine) {
    auto slot = std::make_unique<Slot>();
    slot->index = static_cast<int>(slots_.size());
    slot->rank = rank;
    slot->gpu = gpu;
    if (gpu == context.gpu) {
      slot->context = &context;
    } else {
      slot->own = std::make_unique<Context>();
      slot->own->gpu = gpu;
      slot->context = slot->own.get();
    }
    slots_.push_back(std::move(slot));
    gpus_.push_back(gpu);
  }
  if (in()) {
    together([](Slot& slot) {
      if (slot.own) {
        check(cudaGetDeviceProperties(&slot.own->properties, slot.gpu), "cudaGetDeviceProperties");
        check(cudaStreamCreateWithFlags(&slot.own->stream, cudaStreamNonBlocking),
              "cudaStreamCreate");
      }
    });
  }
}

Team::Team(Context& context)
    : gpu_(context.gpu), ranks_(1), gpus_{context.gpu}, party_(std::make_unique<Party>()) {
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->gpu = context.gpu;
  slots_.back()->context = &context;
}

Team::~Team() {
  slots_.clear();
  (void)cudaSetDevice(gpu_);
}

void Team::run(const std::function<void(Slot&)>& work) {
  failed_ = false;
  waiting_ = 0;
  std::vector<std::exception_ptr> failures(slots_.size());
  const auto one = [&](Slot& slot) {
    try {
      check(cudaSetDevice(slot.gpu), "cudaSetDevice");
      work(slot);
    } catch (...) {
      failures[static_cast<std::size_t>(slot.index)] = std::current_exception();
      failed_ = true;
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < slots_.size(); ++i) {
    others.emplace_back(one, std::ref(*slots_[i]));
  }
  if (!slots_.empty()) {
    one(*slots_[0]);
  }
  for (std::thread& other : others) {
    other.join();
  }
  // A device failure has priority over an unsupported case, and that over failures that follow from
  // it.
  std::exception_ptr failed, refused, abandoned;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) {
      continue;
    }
    try {
      std::rethrow_exception(failure);
    } catch (const Abandoned&) {
      abandoned = failure;
    } catch (const Unsupported&) {
      refused = refused ? refused : failure;
    } catch (...) {
      failed = failed ? failed : failure;
    }
  }
  if ((failed || abandoned) && on_failure_) {
    on_failure_();
  }
  for (const std::exception_ptr& failure : {failed, refused, abandoned}) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

void Team::together(const std::function<void(Slot&)>& work) {
  std::string refusal;
  try {
    run(work);
  } catch (const Unsupported& error) {
    refusal = error.what();
  }
  party_->agree(refusal);
}

void Team::meet_here() {
  const unsigned round = round_.load();
  if (waiting_.fetch_add(1) + 1 == static_cast<int>(slots_.size())) {
    waiting_ = 0;  // reset before the others continue and meet again
    round_.fetch_add(1);
    return;
  }
  while (round_.load() == round) {
    if (failed_) {
      throw Abandoned();
    }
    std::this_thread::yield();
  }
}

void Team::meet(const Slot& slot) {
  meet_here();
  if (slot.index == 0) {
    party_->barrier();
  }
  meet_here();
}

void Team::wait(cudaStream_t stream, const std::function<std::string()>& broken) {
  const auto start = std::chrono::steady_clock::now();
  bool waited = false;
  for (int polls = 1;; ++polls) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) {
      break;
    }
    if (state != cudaErrorNotReady) {
      check(state, "collective");
    }
    waited = true;
    std::this_thread::yield();
    if (polls % kBetweenChecks != 0) {
      continue;
    }
    polls = 0;
    if (failed_) {
      throw Abandoned();
    }
    if (const std::string error = broken ? broken() : ""; !error.empty()) {
      throw std::runtime_error(error);
    }
    if (std::chrono::steady_clock::now() - start > kPatience) {
      throw std::runtime_error("a collective makes no progress: is every rank alive?");
    }
  }
  if (waited) {
    (void)cudaGetLastError();  // clears "not ready", which the next check would report
  }
}

}  // namespace stepcast::harness::cuda
