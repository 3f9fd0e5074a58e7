// Tries single changes first. Where none is enough, it combines those that save most memory.
#include "stepcast/search/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "stepcast/forecast/forecaster.h"

namespace stepcast::search {
namespace {

struct Tried {
  std::vector<std::string> overrides;
  double step = 0;  // seconds
  double peak = 0;  // process memory, bytes
  result::Fit fits;
};

std::string key_of(const std::string& override) { return override.substr(0, override.find('=')); }

// True if both set the same key, or one sets a key inside the other's.
bool clash(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto within = [](const std::string& inner, const std::string& outer) {
    return inner == outer || inner.rfind(outer + ".", 0) == 0;
  };
  for (const std::string& x : a) {
    for (const std::string& y : b) {
      if (within(key_of(x), key_of(y)) || within(key_of(y), key_of(x))) {
        return true;
      }
    }
  }
  return false;
}

// What a forecast costs beside its tasks, in tasks: reading the job, topology, the allocator's
// replay.
constexpr std::int64_t kEachForecast = 200'000;

// What is left of the tasks, and what they did not suffice for.
struct Budget {
  std::int64_t tasks = 0;
  int untried = 0;
  int tried = 0;
};

std::optional<Tried> attempt(forecast::Forecaster& forecaster, const Loader& loader,
                             std::vector<std::string> overrides, Budget& left,
                             const AdviceOptions& options) {
  if (left.tasks <= 0) {
    ++left.untried;
    return std::nullopt;
  }
  const std::optional<job::Job> job = loader(overrides);
  if (!job) {
    return std::nullopt;
  }
  const auto outcome = forecaster.forecast(*job, {.stop = options.stop});
  ++left.tried;
  if (options.progress) {
    options.progress(left.tried);
  }
  const auto* report = std::get_if<result::Report>(&outcome);
  if (report == nullptr) {
    return std::nullopt;
  }
  left.tasks -= report->engine.tasks + kEachForecast;
  return Tried{std::move(overrides), report->step_time.value, report->peak.value, report->fits};
}

// Keeps the changes that lower the peak, sorted by bytes saved.
void sort_by_saving(std::vector<Tried>& tried, double peak) {
  std::erase_if(tried, [&](const Tried& t) { return t.peak >= peak; });
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Tried& a, const Tried& b) { return a.peak < b.peak; });
}

// How many of the changes that save most are combined with each other. Combinations of up to three
// of them are at most 64 + 512 forecasts of milliseconds each.
constexpr std::size_t kCombined = 8;

}  // namespace

Advised advise(forecast::Forecaster& forecaster, const job::Job& job, const result::Report& misfit,
               const Loader& loader, const AdviceOptions& options) {
  std::vector<Tried> singles;
  Budget left{options.most_tasks};
  for (auto& overrides : changes(job, misfit)) {
    if (auto tried = attempt(forecaster, loader, std::move(overrides), left, options)) {
      singles.push_back(std::move(*tried));
    }
  }
  const auto fits = [](const Tried& t) { return t.fits.fits; };
  std::vector<Tried> level = singles;
  sort_by_saving(singles, misfit.peak.value);
  if (singles.size() > kCombined) {
    singles.resize(kCombined);
  }
  for (int depth = 1; depth < options.depth && std::none_of(level.begin(), level.end(), fits);
       ++depth) {
    sort_by_saving(level, misfit.peak.value);
    if (level.size() > kCombined) {
      level.resize(kCombined);
    }
    std::vector<Tried> next;
    for (std::size_t i = 0; i < level.size(); ++i) {
      for (std::size_t k = depth == 1 ? i + 1 : 0; k < singles.size(); ++k) {
        if (clash(level[i].overrides, singles[k].overrides)) {
          continue;
        }
        std::vector<std::string> both = level[i].overrides;
        both.insert(both.end(), singles[k].overrides.begin(), singles[k].overrides.end());
        std::sort(both.begin(), both.end());
        const bool known = std::any_of(next.begin(), next.end(),
                                       [&](const Tried& t) { return t.overrides == both; });
        if (known) {
          continue;
        }
        if (auto tried = attempt(forecaster, loader, std::move(both), left, options)) {
          next.push_back(std::move(*tried));
        }
      }
    }
    level = std::move(next);
  }
  std::erase_if(level, [](const Tried& t) { return !t.fits; });
  std::stable_sort(level.begin(), level.end(),
                   [](const Tried& a, const Tried& b) { return a.step < b.step; });
  Advised out;
  out.untried = left.untried;
  for (const Tried& t : level) {
    if (static_cast<int>(out.advice.size()) == options.count) {
      break;
    }
    // The report's times are in picoseconds.
    out.advice.push_back({fmt::format("{}", fmt::join(t.overrides, " ")),
                          Bytes(static_cast<std::int64_t>(t.peak)),
                          Time(static_cast<std::int64_t>(t.step * 1e12)), t.fits});
  }
  return out;
}

void add_advice(forecast::Forecaster& forecaster, const job::Job& job, const Loader& loader,
                result::Report& report, const AdviceOptions& options) {
  Advised found = advise(forecaster, job, report, loader, options);
  report.advice = std::move(found.advice);
  if (report.advice.empty()) {
    report.notes.emplace_back(
        "no recomputation, offloading, sharding, smaller micro-batch or larger grid that was tried "
        "makes it fit");
  }
  if (found.untried > 0) {
    report.notes.push_back(
        fmt::format("advice stopped before all was tried: this job is large, and {} changes were "
                    "not forecast; simulate search goes on for as long as it is given",
                    found.untried));
  }
}

}  // namespace stepcast::search
