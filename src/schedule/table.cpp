#include <fmt/format.h>

#include <array>
#include <limits>

#include "orders.h"
#include "stepcast/base/suggestion.h"

namespace stepcast::schedule {
namespace {

constexpr Placement kLoop = Placement::loop, kVee = Placement::vee,
                    kBoth = Placement::bidirectional;

constexpr std::array kTable = {
    Entry{.name = "gpipe",
          .summary = "all forwards, then all backwards (GPipe; torchgpipe)",
          .make = make_gpipe,
          .chunks = 1,
          .plain_loop = true},
    Entry{.name = "1f1b",
          .summary = "one forward, one backward after the warm-up (PipeDream-flush; Megatron-LM); "
                     "also +vocab_1, +vocab_2",
          .make = make_one_f_one_b,
          .chunks = 1,
          .plain_loop = true,
          .takes_warmup = true,
          .takes_vocabulary = true},
    Entry{"1f1b_overlap", "1f1b with twice the warm-up, so that messages overlap passes (Alpa)",
          make_one_f_one_b_overlap, kLoop, 1},
    Entry{.name = "interleaved_1f1b",
          .summary = "1f1b over several model chunks per rank (Megatron-LM)",
          .make = make_interleaved,
          .plain_loop = true,
          .can_pair = true,
          .takes_group = true,
          .takes_warmup = true},
    Entry{"looped_bfs", "all micro-batches through each chunk in turn (PyTorch ScheduleLoopedBFS)",
          make_looped_bfs},
    Entry{"circular", "looped_bfs as one scan over the stages and its transpose (MaxText)",
          make_circular},
    Entry{"zb_h1",
          "1f1b whose weight gradients fill its idle time, in its memory (Qi et al. 2401.10241)",
          make_zb_h1, kLoop, 1, true},
    Entry{"zb_h2",
          "the same without idle time for equal F, I and W, in twice the memory (2401.10241)",
          make_zb_h2, kLoop, 1, true},
    Entry{.name = "interleaved_zb",
          .summary =
              "zb_h1 over several model chunks per rank (PyTorch ScheduleInterleavedZeroBubble)",
          .make = make_interleaved_zb,
          .splits_backward = true},
    Entry{
        .name = "zb_auto",
        .summary =
            "zero-bubble order found for given pass times and memory limit (2401.10241, section 3)",
        .make = make_zb_auto,
        .chunks = 1,
        .splits_backward = true,
        .orders_by_times = true,
        .takes_memory_limit = true},
    Entry{"zb_v",
          "zero bubble in 1f1b's memory: two chunks in a V (2405.15362; PyTorch "
          "ScheduleZBVZeroBubble)",
          make_zb_v, kVee, 2, true},
    Entry{.name = "v_half",
          .summary = "two chunks in a V, half of 1f1b's activations (Qi et al. 2405.15362); also "
                     "+vocab_1, +vocab_2",
          .make = make_v_half,
          .placement = kVee,
          .chunks = 2,
          .splits_backward = true,
          .takes_vocabulary = true},
    Entry{"v_min", "two chunks in a V, a third of 1f1b's activations (2405.15362)", make_v_min,
          kVee, 2, true},
    Entry{.name = "dualpipe",
          .summary = "two directions, forward and backward side by side (DeepSeek DualPipe)",
          .make = make_dualpipe,
          .placement = kBoth,
          .chunks = 2,
          .splits_backward = true,
          .has_pairs = true},
    Entry{
        .name = "dualpipe_v",
        .summary = "DualPipe cut in half: two chunks in a V (DeepSeek; PyTorch ScheduleDualPipeV)",
        .make = make_dualpipe_v,
        .placement = kVee,
        .chunks = 2,
        .splits_backward = true,
        .has_pairs = true},
    Entry{"chimera",
          "two directions, units of as many micro-batches as stages (Li and Hoefler 2107.06925)",
          make_chimera, kBoth, 2},
    Entry{.name = "interlaced",
          .summary = "1f1b with the vocabulary tensor-parallel over all ranks at once (2411.05288, "
                     "baseline)",
          .make = make_interlaced,
          .chunks = 1,
          .splits_vocabulary = true},
};

// The table's entries in the order in which messages list their names, which is that of their age.
constexpr std::array<std::size_t, kTable.size()> kAsListed = {0,  1,  2,  3,  4,  6, 7,  10, 9,
                                                              11, 12, 13, 14, 15, 5, 16, 8};

constexpr auto kNames = [] {
  std::array<std::string_view, kTable.size()> out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = kTable[kAsListed[i]].name;
  }
  return out;
}();

std::string_view base_of(std::string_view name) { return name.substr(0, name.find('+')); }

std::optional<Infeasible> unread(const Entry& entry, const Request& request) {
  const auto no = [&](const char* key, const char* what) {
    return Infeasible{key, fmt::format("{} takes no {}", entry.name, what)};
  };
  if (entry.chunks > 0 && request.chunks != 1 && request.chunks != entry.chunks) {
    return refuse(
        fmt::format("{} has {} model chunk{} per rank, not {}{}", entry.name, entry.chunks,
                    entry.chunks == 1 ? "" : "s", request.chunks,
                    entry.name == "1f1b" ? ": use interleaved_1f1b for virtual stages" : ""));
  }
  if (!entry.takes_group && request.group != 0) {
    return no("parallelism.schedule.group", "micro-batch group");
  }
  if (!entry.takes_warmup && request.extra_warmup != 0) {
    return no("parallelism.schedule.extra_warmup", "extra warm-up");
  }
  if (!entry.takes_memory_limit && request.memory_limit != 1) {
    return no("parallelism.schedule.memory_limit", "memory limit; zb_auto is built to one");
  }
  if (!request.vocabulary.empty() && request.vocabulary != "vocab_1" &&
      request.vocabulary != "vocab_2") {
    return refuse(fmt::format("unknown vocabulary schedule '{}'; expected vocab_1 or vocab_2",
                              request.vocabulary));
  }
  if (!entry.takes_vocabulary && !request.vocabulary.empty()) {
    return refuse(
        fmt::format("{} has no place for the vocabulary's passes; expected 1f1b+{} or v_half+{}",
                    entry.name, request.vocabulary, request.vocabulary));
  }
  return std::nullopt;
}

Infeasible unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Entry& entry : kTable) {
    names.emplace_back(entry.name);
  }
  return refuse(fmt::format("unknown schedule '{}'; expected {}{}", name, fmt::join(names, ", "),
                            suggestion(name, names)));
}

}  // namespace

std::span<const Entry> table() { return kTable; }

std::span<const std::string_view> names() { return kNames; }

std::string_view implied(int chunks) { return chunks > 1 ? "interleaved_1f1b" : "1f1b"; }

const Entry* find(std::string_view name) {
  for (const Entry& entry : kTable) {
    if (entry.name == base_of(name)) {
      return &entry;
    }
  }
  return nullptr;
}

Made make(std::string_view name, const Request& given) {
  if (given.stages < 1 || given.micro_batches < 1 || given.chunks < 1 || given.group < 0 ||
      given.extra_warmup < 0) {
    return refuse(
        "stages, micro-batches and chunks must be at least 1, group and extra warm-up at least 0");
  }
  const Entry* entry = find(name);
  if (entry == nullptr) {
    return unknown(name);
  }
  Request request = given;
  if (const auto plus = name.find('+'); plus != name.npos) {
    request.vocabulary = name.substr(plus + 1);
  }
  if (auto why = unread(*entry, request)) {
    return *why;
  }
  // Passes of a rank are counted in ints, here and by whoever walks an order.
  constexpr std::int64_t kMaxPasses = std::numeric_limits<int>::max() / 8;
  request.chunks = entry->chunks > 0 ? entry->chunks : request.chunks;
  if (std::int64_t{request.micro_batches} * request.chunks > kMaxPasses ||
      std::int64_t{request.stages} * request.chunks > kMaxPasses ||
      request.extra_warmup > kMaxPasses) {
    return refuse(fmt::format("{} micro-batches in {} chunks are too many to schedule",
                              request.micro_batches, request.chunks));
  }
  Made made = entry->make(request);
  if (auto* order = std::get_if<Order>(&made)) {
    order->chunks = request.chunks;
  }
  return made;
}

}  // namespace stepcast::schedule
