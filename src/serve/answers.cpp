#include "answers.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "heap.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/report/report.h"
#include "stepcast/search/advice.h"

namespace stepcast::serve {
namespace {

constexpr std::size_t kRemembered = std::size_t{1} << 18;  // bytes: some 18 whole reports
constexpr std::chrono::milliseconds kBetweenLooks{100};    // at a request's Stop, while it waits
constexpr std::size_t kMostCurves = 2;                     // times those of the server's own job
constexpr int kQuick = 2;  // bounds and headlines that are computed at the same time

int at_once() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8); }

// An origin "--set parallelism.tensor=3" gives the key parallelism.tensor. An origin in a file
// gives the name of the file without its folder.
std::string key_of(const Origin& where) {
  constexpr std::string_view kSet = "--set ";
  if (where.file.starts_with(kSet)) {
    return where.file.substr(kSet.size(), where.file.find('=') - kSet.size());
  }
  return to_string(
      Origin{std::filesystem::path(where.file).filename().string(), where.line, where.column});
}

// Takes a report that was made without intervals and without the allocator's replay, and keeps only
// the values that depend on neither.
std::string headline(const result::Report& report) {
  using Json = nlohmann::ordered_json;
  const Json whole = Json::parse(report::json(report));
  Json out;
  for (const char* key : {"schema", "stepcast", "job", "parameters", "active_parameters", "tokens",
                          "bubble_fraction", "breakdown"}) {
    out[key] = whole.at(key);
  }
  for (const char* key :
       {"step_time", "tokens_per_second_per_gpu", "model_flops_per_gpu", "mfu", "hfu"}) {
    out[key] = {{"value", whole.at(key).at("value")}};
  }
  out["engine"] = whole.at("engine");
  out["engine"]["fidelity"] = "headline";
  return out.dump(2) + "\n";
}

Answer refused(int status, const std::vector<Fault>& faults) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Fault& fault : faults) {
    list.push_back({{"key", key_of(fault.where)}, {"message", fault.message}});
  }
  using Json = nlohmann::ordered_json;
  return {status,
          Json{{"faults", list}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

// Begins `work` in a thread of its own; where the process may have no more, it is done in the
// caller's once it is asked for.
template <class Work>
auto begun(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

// Runs what needs much memory in a thread that ends with it: a connection's thread stays, and keeps
// the deepest stack it ever had and the C library's list of what it freed last.
Answer beside(const std::function<Answer()>& work) { return begun(work).get(); }

}  // namespace

Forecasters::Forecasters(const std::filesystem::path& data, int count) : data_(data) {
  for (int i = 0; i < count; ++i) {
    free_.push_back(std::make_unique<forecast::Forecaster>(data));
  }
}

void Forecasters::warm(const job::Job& job, const forecast::Options& options) {
  std::vector<std::future<void>> answers;
  for (const auto& one : free_) {
    answers.push_back(begun([&] { one->forecast(job, options); }));
  }
  for (auto& answer : answers) {
    answer.get();  // hands on what was thrown, such as a data file that cannot be read
  }
  warm_ = free_.front()->kept();
}

std::unique_ptr<forecast::Forecaster> Forecasters::take(const Stop& stop) {
  std::unique_lock lock(mutex_);
  while (!free_again_.wait_for(lock, kBetweenLooks, [&] { return !free_.empty(); })) {
    stop.check();
  }
  auto one = std::move(free_.back());
  free_.pop_back();
  return one;
}

void Forecasters::give_back(std::unique_ptr<forecast::Forecaster> one) {
  const auto [devices, curves] = one->kept();
  if (devices > warm_.devices || curves > kMostCurves * warm_.curves) {
    one = std::make_unique<forecast::Forecaster>(data_);
  }
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }
  free_again_.notify_one();
}

std::shared_ptr<const Answer> Remembered::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void Remembered::keep(const std::string& key, std::shared_ptr<const Answer> answer) {
  const std::lock_guard lock(mutex_);
  if (places_.contains(key)) {
    return;
  }
  bytes_ += answer->json.size();
  entries_.emplace_front(key, std::move(answer));
  places_[key] = entries_.begin();
  while (bytes_ > capacity_ && entries_.size() > 1) {
    bytes_ -= entries_.back().second->json.size();
    places_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

Answer refusal(int status, const std::string& key, const std::string& message) {
  return refused(status, {Fault{{key, 0, 0}, message}});
}

Answers::Answers(const Options& options)
    : config_(options.config),
      overrides_(options.overrides),
      folded_(options.data, at_once()),
      quick_(options.data, kQuick),
      remembered_(kRemembered) {
  const config::Loaded loaded = input::load(config_, overrides_);
  const auto outcome = (*Forecasters::Loan(folded_)).forecast(loaded.job);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw InputError(config::fault_of(loaded, *why));
  }
  auto report = std::get<result::Report>(outcome);
  title_ = report.title;
  report.job_json = config::to_json(loaded.job);
  remembered_.keep(name_of({}, Asked::folded),
                   std::make_shared<const Answer>(Answer{200, report::json(report)}));
  folded_.warm(loaded.job, {});
  quick_.warm(loaded.job, {.samples = -1, .allocator = forecast::Allocator::rule});
  // One of each kind of request, so that nothing of a first answer is read while a reader waits.
  for (const char* body : {R"({"set": ["seed=1"], "fidelity": "bound"})",
                           R"({"set": ["seed=1"], "fidelity": "headline"})",
                           R"({"set": ["seed=1"]})", R"({"set": ["cluster.nodes=0"]})"}) {
    forecast(body, {});
  }
  shrink_heap();
}

std::string Answers::name_of(const Request& request, Asked asked) {
  std::string name = std::to_string(static_cast<int>(asked));
  for (const std::string& override : request.overrides) {
    name += ' ' + std::to_string(override.size()) + ' ' + override;
  }
  return name;
}

std::vector<std::string> Answers::with(const std::vector<std::string>& more) const {
  std::vector<std::string> all = overrides_;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Answers::Asked Answers::asked_by(Request::Detail detail) {
  return detail == Request::Detail::bound      ? Asked::bound
         : detail == Request::Detail::headline ? Asked::headline
                                               : Asked::folded;
}

Answer Answers::compute(const Request& request, Asked asked, const Stop& stop) {
  const bool quick = asked == Asked::bound || asked == Asked::headline;
  Forecasters::Loan forecaster(quick ? quick_ : folded_, stop);
  // Behind the loan: no more jobs are in memory than are forecast.
  const config::Loaded loaded = input::load(config_, with(request.overrides));
  forecast::Options options;
  options.threads = 0;
  options.fidelity = asked == Asked::bound ? forecast::Fidelity::bound : forecast::Fidelity::folded;
  options.most_tasks = lower::kMostTasks / 4;  // several forecasts run at once
  options.stop = &stop;
  if (asked == Asked::headline) {
    options.samples = -1;
    options.allocator = forecast::Allocator::rule;
  }
  auto outcome = (*forecaster).forecast(loaded.job, options);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    return refusal(422, why->key, why->reason);
  }
  auto& report = std::get<result::Report>(outcome);
  report.job_json = config::to_json(loaded.job);
  if (asked == Asked::advice && !report.fits) {
    search::add_advice(*forecaster, loaded.job,
                       [&](const std::vector<std::string>& more) -> std::optional<job::Job> {
                         std::vector<std::string> all = with(request.overrides);
                         all.insert(all.end(), more.begin(), more.end());
                         try {
                           return input::load(config_, all).job;
                         } catch (const InputError&) {
                           return std::nullopt;
                         }
                       },
                       report, {.stop = &stop});
  }
  return {200, asked == Asked::headline ? headline(report) : report::json(report)};
}

Answer Answers::answer(const std::string& body, bool advice, const Stop& stop) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const Request request = read_request(body);
    const Asked asked = advice ? Asked::advice : asked_by(request.detail);
    const std::string key = name_of(request, asked);
    if (asked == Asked::headline) {
      if (const auto whole = remembered_.find(name_of(request, Asked::folded))) {
        return *whole;  // The page recognises a whole report and asks for nothing more.
      }
    }
    if (const auto known = remembered_.find(key)) {
      return *known;
    }
    Answer made = beside([&] { return compute(request, asked, stop); });
    made.json.shrink_to_fit();  // kept for long
    shrink_heap();
    remembered_.keep(key, std::make_shared<const Answer>(made));
    made.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return made;
  } catch (const InputError& error) {
    return refused(400, error.faults());
  } catch (const std::overflow_error& error) {
    return refusal(422, "job", error.what());
  } catch (const Stopped&) {
    return refusal(503, "job", "takes too long for a page; simulate forecasts it without a limit");
  }
}

Answer Answers::forecast(const std::string& body, const Stop& stop) {
  return answer(body, false, stop);
}
Answer Answers::advice(const std::string& body, const Stop& stop) {
  return answer(body, true, stop);
}

}  // namespace stepcast::serve
