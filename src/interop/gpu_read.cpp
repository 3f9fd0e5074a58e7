// Files of calibrate-gpu. Every line is checked against its record's keys; all lines at fault are
// told at once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "gpu_names.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;
using text::Value;

constexpr std::uintmax_t kLargestFile = 256u << 20;
// A file of another kind has a fault on every line: the first ones tell.
constexpr std::size_t kMostFaults = 50;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;  // of one kernel, with room to spare
constexpr std::int64_t kMostOfAShape = std::int64_t{1} << 31;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr double kLongest = 3600;        // seconds
constexpr double kMostOfANumber = 1e15;  // Hz, W, Celsius
// Two medians of one case further apart than this are not noise: the machine changed in between.
constexpr double kContradiction = 1.5;
// What drivers of different releases keep for themselves changes a device's memory by less.
constexpr double kSameMemory = 0.03;

std::string listed(const auto& words) { return fmt::format("{}", fmt::join(words, ", ")); }

// The keys of one JSON object: each is asked for once, and what was not asked for is a fault.
class Record {
 public:
  Record(const Value& value, std::string what, std::vector<Fault>& faults)
      : value_(value), what_(std::move(what)), faults_(faults) {}

  bool has(const char* key) const { return value_.find(key) != nullptr; }

  const Value* get(const char* key, bool needed = true) {
    known_.emplace_back(key);
    const Value* v = value_.find(key);
    if (v == nullptr && needed) {
      fault(value_.origin, fmt::format("'{}' of a {} is missing", key, what_));
    }
    return v;
  }

  std::string text(const char* key, bool may_be_empty = false) {
    const Value* v = get(key);
    if (v == nullptr) {
      return "";
    }
    if (v->kind != Value::Kind::scalar || !v->quoted || (v->scalar.empty() && !may_be_empty)) {
      fault(v->origin, fmt::format("{} is no text; expected a string in quotes", key));
      return "";
    }
    return v->scalar;
  }

  // Index into `words`; 0 where it is none of them.
  template <std::size_t N>
  std::size_t choice(const char* key, const std::array<std::string_view, N>& words) {
    const Value* v = get(key);
    if (v == nullptr) {
      return 0;
    }
    const auto at = v->kind == Value::Kind::scalar && v->quoted
                        ? std::find(words.begin(), words.end(), v->scalar)
                        : words.end();
    if (at == words.end()) {
      fault(v->origin,
            fmt::format("{} is '{}'; expected one of {}", key, v->scalar, listed(words)));
      return 0;
    }
    return static_cast<std::size_t>(at - words.begin());
  }

  job::DType dtype() {
    const Value* v = get("dtype");
    if (v == nullptr) {
      return job::DType::bf16;
    }
    std::vector<std::string> names;
    for (const job::DType t : kDTypes) {
      if (v->kind == Value::Kind::scalar && v->scalar == job::to_string(t)) {
        return t;
      }
      names.emplace_back(job::to_string(t));
    }
    fault(v->origin, fmt::format("dtype is '{}'; expected one of {}", v->scalar, listed(names)));
    return job::DType::bf16;
  }

  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) {
    const Value* v = get(key);
    return v == nullptr ? least : whole_of(*v, key, least, most);
  }
  std::int64_t whole_or(const char* key, std::int64_t otherwise, std::int64_t most) {
    const Value* v = get(key, false);
    return v == nullptr ? otherwise : whole_of(*v, key, otherwise, most);
  }
  int count(const char* key, std::int64_t most) { return static_cast<int>(whole(key, 1, most)); }

  double number(const char* key, bool needed = true) {
    const Value* v = get(key, needed);
    return v == nullptr ? 0 : number_of(*v, key, 0, kMostOfANumber);
  }
  double seconds(const char* key) {
    const Value* v = get(key);
    if (v == nullptr) {
      return 1;
    }
    const double s = number_of(*v, key, -kMostOfANumber, kMostOfANumber);
    if (std::isnan(s)) {
      return 1;
    }
    if (!(s > 0) || s > kLongest) {
      fault(v->origin,
            fmt::format("{} is {} s; expected a time above 0 and to {:.0f} s", key, s, kLongest));
      return 1;
    }
    return s;
  }

  bool flag(const char* key, bool needed = true) {
    const Value* v = get(key, needed);
    if (v == nullptr) {
      return false;
    }
    if (v->kind != Value::Kind::scalar || v->quoted ||
        (v->scalar != "true" && v->scalar != "false")) {
      fault(v->origin, fmt::format("{} is '{}'; expected true or false", key, v->scalar));
      return false;
    }
    return v->scalar == "true";
  }

  // Keys that nobody asked for.
  void close() {
    for (const auto& entry : value_.entries) {
      if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
        const std::string near = nearest(entry.key, known_);
        fault(entry.origin, fmt::format("unknown key '{}' of a {}; expected {}", entry.key, what_,
                                        near.empty() ? listed(known_) : "'" + near + "'"));
      }
    }
  }

  void fault(const Origin& where, std::string message) {
    good_ = false;
    faults_.push_back({where, std::move(message)});
  }
  bool good() const { return good_; }
  void spoil() { good_ = false; }
  const Origin& origin() const { return value_.origin; }

 private:
  std::int64_t whole_of(const Value& v, const char* key, std::int64_t least, std::int64_t most) {
    try {
      if (v.quoted) {
        throw InputError(Fault{v.origin, fmt::format("'{}' is quoted", v.scalar)});
      }
      const std::int64_t n = text::to_integer(v);
      if (n >= least && n <= most) {
        return n;
      }
      fault(v.origin, fmt::format("{} is {}; expected {} to {}", key, n, least, most));
    } catch (const InputError& error) {
      fault(v.origin, fmt::format("{}: {}", key, error.faults().front().message));
    }
    return least;
  }

  double number_of(const Value& v, const char* key, double least, double most) {
    try {
      if (v.quoted) {
        throw InputError(
            Fault{v.origin, fmt::format("'{}' is quoted; expected a number", v.scalar)});
      }
      const double n = text::to_number(v);
      if (n >= least && n <= most) {
        return n;
      }
      fault(v.origin, fmt::format("{} is {}; expected {} to {}", key, n, least, most));
    } catch (const InputError& error) {
      fault(v.origin, fmt::format("{}: {}", key, error.faults().front().message));
    }
    return std::nan("");
  }

  const Value& value_;
  std::string what_;
  std::vector<Fault>& faults_;
  std::vector<std::string> known_;
  bool good_ = true;
};

GpuCase gemm(Record& r) {
  GemmCase c;
  c.dtype = r.dtype();
  c.layout = static_cast<GemmLayout>(r.choice("layout", kLayoutNames));
  c.m = r.whole("m", 1, kMostOfAShape);
  c.n = r.whole("n", 1, kMostOfAShape);
  c.k = r.whole("k", 1, kMostOfAShape);
  c.batch = r.whole_or("batch", 1, kMostOfAShape);
  c.groups = static_cast<int>(r.whole_or("groups", 1, 1 << 20));
  c.accumulate_fp32 = r.flag("accumulate_fp32", false);
  c.sustained = r.flag("sustained", false);
  return c;
}

GpuCase attention(Record& r) {
  AttentionCase c;
  c.kernel = kAttentionNames[r.choice("kernel", kAttentionNames)];
  c.dtype = r.dtype();
  c.sequences = r.whole("sequences", 1, kMostOfAShape);
  c.length = r.whole("length", 1, kMostOfAShape);
  c.heads = r.count("heads", 1 << 20);
  c.kv_heads = r.count("kv_heads", 1 << 20);
  c.head_dim = r.count("head_dim", 1 << 16);
  if (r.good() && c.heads % c.kv_heads != 0) {
    r.fault(r.origin(), fmt::format("{} heads do not share {} kv_heads evenly; expected a multiple",
                                    c.heads, c.kv_heads));
  }
  c.causal = r.flag("causal");
  c.backward = r.flag("backward");
  return c;
}

GpuCase memory(Record& r) {
  MemoryCase c;
  c.op = kMemoryNames[r.choice("op", kMemoryNames)];
  c.dtype = r.dtype();
  c.bytes = r.whole("bytes", 1, kMostBytes);
  c.backward = r.flag("backward");
  return c;
}

GpuCase copy(Record& r) {
  CopyCase c;
  c.direction = kDirectionNames[r.choice("direction", kDirectionNames)];
  c.pinned = r.flag("pinned");
  c.bytes = r.whole("bytes", 1, kMostBytes);
  return c;
}

GpuCase launch(Record& r) {
  return LaunchCase{std::string(kLaunchNames[r.choice("what", kLaunchNames)])};
}

std::string collective_op(Record& r) {
  const std::string op = r.text("op");
  const auto& names = collective_names();
  if (!op.empty() && std::find(names.begin(), names.end(), op) == names.end()) {
    r.fault(r.origin(), fmt::format("op is '{}'; expected one of {}", op, listed(names)));
  }
  return op;
}

GpuCase collective(Record& r) {
  CollectiveCase c;
  c.op = collective_op(r);
  c.dtype = r.dtype();
  c.bytes = r.whole("bytes", 1, kMostBytes);
  c.ranks = r.count("ranks", kMostRanks);
  c.nodes = r.count("nodes", kMostRanks);
  if (r.good() && c.ranks < c.nodes) {
    r.fault(r.origin(),
            fmt::format("{} ranks on {} nodes; expected at least one on each", c.ranks, c.nodes));
  }
  c.algo = r.has("algo") ? r.text("algo") : "";
  c.proto = r.has("proto") ? r.text("proto") : "";
  r.get("algo", false);
  r.get("proto", false);
  return c;
}

GpuCase overlap(Record& r) {
  OverlapCase c;
  c.kernel = r.text("kernel");
  if (c.kernel == "gemm") {
    c.m = r.whole("m", 1, kMostOfAShape);
    c.n = r.whole("n", 1, kMostOfAShape);
    c.k = r.whole("k", 1, kMostOfAShape);
  } else {
    if (!c.kernel.empty() &&
        std::find(kMemoryNames.begin(), kMemoryNames.end(), c.kernel) == kMemoryNames.end()) {
      r.fault(r.origin(),
              fmt::format("kernel is '{}'; expected gemm, {}", c.kernel, listed(kMemoryNames)));
    }
    c.bytes = r.whole("bytes", 1, kMostBytes);
  }
  if (r.has("op") == r.has("direction")) {
    r.fault(r.origin(), "an overlap is beside a collective or a copy; expected op or direction");
  }
  if (r.has("op")) {
    c.op = collective_op(r);
    c.ranks = r.count("ranks", kMostRanks);
    c.channels = static_cast<int>(r.whole_or("channels", 0, 1024));
  } else if (r.has("direction")) {
    c.direction = kDirectionNames[r.choice("direction", kDirectionNames)];
    c.ranks = static_cast<int>(r.whole_or("ranks", 0, kMostRanks));
    c.channels = static_cast<int>(r.whole_or("channels", 0, 1024));
  }
  r.get("op", false);
  r.get("direction", false);
  c.other_bytes = r.whole("other_bytes", 1, kMostBytes);
  return c;
}

GpuCase layer(Record& r) {
  LayerCase c;
  c.model = r.text("model");
  c.dtype = r.dtype();
  c.sequences = r.whole("sequences", 1, kMostOfAShape);
  c.length = r.whole("length", 1, kMostOfAShape);
  c.tensor = r.count("tensor", kMostRanks);
  c.backward = r.flag("backward");
  return c;
}

using CaseReader = GpuCase (*)(Record&);

CaseReader reader_of(std::string_view record) {
  static const std::map<std::string_view, CaseReader> readers{
      {"gemm", gemm},     {"attention", attention},   {"memory", memory},   {"copy", copy},
      {"launch", launch}, {"collective", collective}, {"overlap", overlap}, {"layer", layer}};
  const auto at = readers.find(record);
  return at == readers.end() ? nullptr : at->second;
}

// "2026-11-20T21:43:15Z".
bool is_date(const std::string& text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != kShape.size()) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) {
      return false;
    }
  }
  return true;
}

void move_to_line(Value& v, int line) {
  v.origin.line = line;
  for (Value& item : v.items) {
    move_to_line(item, line);
  }
  for (auto& entry : v.entries) {
    entry.origin.line = line;
    move_to_line(entry.value, line);
  }
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text) { out_.file = name; }

  GpuMeasurements run() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") {
      text_.remove_prefix(3);
    }
    int line = 1;
    for (std::size_t at = 0; at < text_.size(); ++line) {
      const std::size_t end = text_.find('\n', at);
      const std::string_view row = text_.substr(at, end - at);
      if (row.find_first_not_of(" \t\r") != std::string_view::npos) {
        take(row, line, end == std::string_view::npos);
      }
      if (end == std::string_view::npos) {
        break;
      }
      at = end + 1;
    }
    if (!faults_.empty()) {
      if (faults_.size() > kMostFaults) {
        const std::size_t more = faults_.size() - kMostFaults;
        const Origin next = faults_[kMostFaults].where;
        faults_.resize(kMostFaults);
        faults_.push_back(
            {next, fmt::format("from here on {} more {}", more, more == 1 ? "fault" : "faults")});
      }
      throw InputError(std::move(faults_));
    }
    keep_one_each();
    return std::move(out_);
  }

 private:
  void take(std::string_view row, int line, bool unfinished) {
    Value v;
    try {
      v = text::parse_json(row, out_.file);
    } catch (const InputError& error) {
      if (unfinished) {
        out_.warnings.push_back({{out_.file, line, 1}, "the last line is cut short; left out"});
        return;
      }
      for (Fault fault : error.faults()) {
        fault.where.line = line;
        faults_.push_back(std::move(fault));
      }
      return;
    }
    move_to_line(v, line);
    if (v.kind != Value::Kind::map) {
      faults_.push_back({v.origin, "is no record; expected a JSON object"});
      return;
    }
    const Value* kind = v.find("record");
    const std::string name =
        kind != nullptr && kind->kind == Value::Kind::scalar ? kind->scalar : "";
    if (name == "session") {
      session(v);
    } else if (const CaseReader read = reader_of(name)) {
      measurement(v, name, read);
    } else {
      faults_.push_back({kind == nullptr ? v.origin : kind->origin,
                         kind == nullptr ? "'record' is missing; expected a line of calibrate-gpu"
                                         : fmt::format("unknown record '{}'; expected one of {}",
                                                       name, listed(kRecordNames))});
    }
  }

  void session(const Value& v) {
    ++session_lines_;
    const std::size_t before = faults_.size();
    Record r(v, "session", faults_);
    r.get("record");
    if (const Value* schema = r.get("schema");
        schema != nullptr && schema->scalar != fmt::format("{}", kMeasurementSchema)) {
      // Keys of another schema are others: they are not looked at.
      r.fault(schema->origin, fmt::format("schema is '{}'; expected {}: written by another version "
                                          "of calibrate-gpu",
                                          schema->scalar, kMeasurementSchema));
      return;
    }
    GpuSession s;
    s.harness = r.text("harness");
    s.date = r.text("date");
    if (!s.date.empty() && !is_date(s.date)) {
      r.fault(v.find("date")->origin,
              fmt::format("date is '{}'; expected such as 2026-11-20T21:43:15Z", s.date));
    }
    s.driver = r.text("driver", true);
    s.cuda = r.text("cuda", true);
    s.cublas = r.text("cublas", true);
    s.cudnn = r.text("cudnn", true);
    s.nccl = r.text("nccl", true);
    if (const Value* g = r.get("gpu"); g != nullptr) {
      if (g->kind != Value::Kind::map) {
        r.fault(g->origin, "gpu is no object; expected its name, count, sms, memory and clocks");
      } else {
        Record gpu(*g, "session's gpu", faults_);
        s.gpu = gpu.text("name");
        s.gpus = gpu.count("count", kMostRanks);
        s.compute_capability = gpu.number("compute_capability");
        s.sms = static_cast<int>(gpu.whole("sms", 0, 1 << 20));
        s.memory = gpu.whole("memory", 0, kMostBytes);
        s.l2 = gpu.whole("l2", 0, kMostBytes);
        s.sm_clock = gpu.number("sm_clock");
        s.memory_clock = gpu.number("memory_clock");
        s.power_limit = gpu.number("power_limit");
        gpu.close();
      }
    }
    r.close();
    if (faults_.size() > before) {
      return;
    }
    if (!out_.sessions.empty()) {
      same_gpu(s, v.origin);
    }
    out_.sessions.push_back(std::move(s));
    lines_.push_back(v.origin.line);
  }

  void same_gpu(const GpuSession& s, const Origin& where) {
    const GpuSession& first = out_.sessions.front();
    const auto fault = [&](const std::string& one, const std::string& other) {
      faults_.push_back({where, fmt::format("a session on {}, but line {} is one on {}; expected "
                                            "one kind of GPU a file",
                                            one, lines_.front(), other)});
    };
    if (s.gpu != first.gpu) {
      fault(s.gpu, first.gpu);
    } else if (s.sms != first.sms) {
      fault(fmt::format("{} with {} SMs", s.gpu, s.sms), fmt::format("{} SMs", first.sms));
    } else if (std::abs(static_cast<double>(s.memory - first.memory)) >
               kSameMemory * static_cast<double>(first.memory)) {
      fault(fmt::format("{} with {} bytes of memory", s.gpu, s.memory),
            fmt::format("{} bytes", first.memory));
    } else if (s.power_limit > 0 && first.power_limit > 0 && s.power_limit != first.power_limit) {
      out_.warnings.push_back(
          {where,
           fmt::format("the power limit is {} W, that of line {} {} W: sustained figures mix",
                       s.power_limit, lines_.front(), first.power_limit)});
    }
  }

  void measurement(const Value& v, const std::string& name, CaseReader read) {
    Record r(v, name + " record", faults_);
    r.get("record");
    GpuMeasurement m;
    m.line = v.origin.line;
    m.what = read(r);
    if (r.has("skipped")) {
      m.skipped = r.text("skipped");
      if (r.has("time")) {
        r.fault(v.find("time")->origin, "a skipped case has a time; expected one of them");
      }
      r.get("time", false);
    } else if (const Value* t = r.get("time"); t != nullptr) {
      timing(r, *t, m);
    }
    r.close();
    if (session_lines_ == 0) {
      r.fault(v.origin, "stands above any session; expected the session's line first");
    }
    if (r.good()) {
      m.session = static_cast<int>(out_.sessions.size()) - 1;
      out_.measurements.push_back(std::move(m));
    }
  }

  void timing(Record& r, const Value& t, GpuMeasurement& m) {
    if (t.kind != Value::Kind::map) {
      r.fault(t.origin, "time is no object; expected its median, p10, p90 and samples");
      return;
    }
    Record time(t, "time", faults_);
    m.time.median = time.seconds("median");
    m.time.p10 = time.seconds("p10");
    m.time.p90 = time.seconds("p90");
    m.time.samples = time.count("samples", 1 << 30);
    time.close();
    if (time.good() && (m.time.p10 > m.time.median || m.time.median > m.time.p90)) {
      time.fault(t.origin, fmt::format("p10 {}, median {} and p90 {} do not rise", m.time.p10,
                                       m.time.median, m.time.p90));
    }
    if (!time.good()) {
      r.spoil();
    }
    if (std::holds_alternative<OverlapCase>(m.what)) {
      m.alone = r.seconds("alone");
      m.other_alone = r.seconds("other_alone");
      m.other_together = r.seconds("other_together");
    }
    m.sm_clock = r.number("sm_clock", false);
    m.power = r.number("power", false);
    m.temperature = r.number("temperature", false);
  }

  // A case that stands twice: the later one counts; both go where they contradict each other. A
  // skipped one gives way to a time.
  void keep_one_each() {
    std::map<std::string, std::vector<std::size_t>> cases;
    for (std::size_t i = 0; i < out_.measurements.size(); ++i) {
      cases[to_string(out_.measurements[i].what)].push_back(i);
    }
    std::vector<Fault> warnings;
    std::set<std::size_t> gone;
    for (const auto& [name, all] : cases) {
      if (all.size() < 2) {
        continue;
      }
      std::vector<std::size_t> timed;
      for (const std::size_t i : all) {
        if (out_.measurements[i].skipped.empty()) {
          timed.push_back(i);
        }
      }
      double least = 0;
      double most = 0;
      for (const std::size_t i : timed) {
        const double t = out_.measurements[i].time.median;
        least = least == 0 ? t : std::min(least, t);
        most = std::max(most, t);
      }
      if (most > kContradiction * least) {
        gone.insert(all.begin(), all.end());
        warnings.push_back(
            {{out_.file, line(all.back()), 1},
             fmt::format("{}: the times of lines {} are a factor of {:.2f} apart; all are left out",
                         name, lines_of(all), most / least)});
        continue;
      }
      const std::size_t kept = timed.empty() ? all.back() : timed.back();
      std::vector<std::size_t> others;
      for (const std::size_t i : all) {
        if (i != kept) {
          others.push_back(i);
          gone.insert(i);
        }
      }
      warnings.push_back({{out_.file, line(others.front()), 1},
                          fmt::format("{} stands again at line {}; line{} {} left out", name,
                                      line(kept), others.size() > 1 ? "s" : "",
                                      lines_of(others) + (others.size() > 1 ? " are" : " is"))});
    }
    std::vector<GpuMeasurement> rest;
    for (std::size_t i = 0; i < out_.measurements.size(); ++i) {
      if (gone.count(i) == 0) {
        rest.push_back(std::move(out_.measurements[i]));
      }
    }
    out_.measurements = std::move(rest);
    out_.warnings.insert(out_.warnings.end(), warnings.begin(), warnings.end());
    std::stable_sort(out_.warnings.begin(), out_.warnings.end(),
                     [](const Fault& a, const Fault& b) { return a.where.line < b.where.line; });
  }

  int line(std::size_t i) const { return out_.measurements[i].line; }
  std::string lines_of(const std::vector<std::size_t>& all) const {
    std::string out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      out += (i == 0 ? "" : i + 1 == all.size() ? " and " : ", ") + std::to_string(line(all[i]));
    }
    return out;
  }

  std::string_view text_;
  GpuMeasurements out_;
  std::vector<Fault> faults_;
  std::vector<int> lines_;  // of sessions
  int session_lines_ = 0;   // those at fault too
};

}  // namespace

GpuMeasurements parse_gpu_measurements(std::string_view text, const std::string& name) {
  return Reader(text, name).run();
}

GpuMeasurements read_gpu_measurements(const fs::path& path) {
  const std::string file = path.string();
  const auto fail = [&](const char* message) -> void {
    throw InputError(Fault{{file, 1, 1}, message});
  };
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail("is a directory; expected a file of calibrate-gpu");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    fail("cannot be read; expected a file of calibrate-gpu");
  }
  if (const auto size = fs::file_size(path, error); !error && size > kLargestFile) {
    fail("is larger than 256 MiB; expected a file of calibrate-gpu");
  }
  std::ostringstream all;
  all << in.rdbuf();
  return parse_gpu_measurements(all.view(), file);
}

}  // namespace stepcast::interop
