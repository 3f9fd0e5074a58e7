// Reads files of calibrate-gpu. Every line is checked against its record's keys; all faulty lines
// are reported at once.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "gpu_cases.h"
#include "gpu_names.h"
#include "gpu_once.h"
#include "gpu_record.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;
using text::Value;

constexpr std::uintmax_t kLargestFile = 256u << 20;
// A file of another kind has a fault on every line, of which the first ones are enough.
constexpr std::size_t kMaxFaults = 50;
// Releases of the driver reserve different amounts, which changes a device's memory by less than
// this.
constexpr double kSameMemory = 0.03;

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

class MeasurementReader {
 public:
  MeasurementReader(std::string_view text, const std::string& name) : text_(text) {
    out_.file = name;
  }

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
      if (faults_.size() > kMaxFaults) {
        const std::size_t more = faults_.size() - kMaxFaults;
        const Origin next = faults_[kMaxFaults].where;
        faults_.resize(kMaxFaults);
        faults_.push_back(
            {next, fmt::format("from here on {} more {}", more, more == 1 ? "fault" : "faults")});
      }
      throw InputError(std::move(faults_));
    }
    keep_one_each(out_);
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
      faults_.push_back({v.origin, "is not a record; expected a JSON object"});
      return;
    }
    const Value* kind = v.find("record");
    const std::string name =
        kind != nullptr && kind->kind == Value::Kind::scalar ? kind->scalar : "";
    if (name == "session") {
      session(v);
    } else if (const CaseReader read = case_reader(name)) {
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
      // The keys of another schema are different and are not read.
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
        r.fault(g->origin,
                "gpu is not an object; expected its name, count, sms, memory and clocks");
      } else {
        Record gpu(*g, "session's gpu", faults_);
        s.gpu = gpu.text("name");
        s.gpus = gpu.count("count", kMaxGpus);
        s.compute_capability = gpu.number("compute_capability");
        if (gpu.get("architecture", false) != nullptr) {
          s.architecture = gpu.text("architecture");
        }
        s.sms = static_cast<int>(gpu.whole("sms", 0, 1 << 20));
        s.memory = gpu.whole("memory", 0, kMaxBytes);
        s.l2 = gpu.whole("l2", 0, kMaxBytes);
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
           fmt::format(
               "the power limit is {} W here and {} W in line {}, so sustained figures are mixed",
               s.power_limit, first.power_limit, lines_.front())});
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
      r.fault(v.origin, "the record comes before any session; expected the session's line first");
    }
    if (r.good()) {
      m.session = static_cast<int>(out_.sessions.size()) - 1;
      out_.measurements.push_back(std::move(m));
    }
  }

  void timing(Record& r, const Value& t, GpuMeasurement& m) {
    if (t.kind != Value::Kind::map) {
      r.fault(t.origin, "time is not an object; expected its median, p10, p90 and samples");
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

  std::string_view text_;
  GpuMeasurements out_;
  std::vector<Fault> faults_;
  std::vector<int> lines_;  // line of each session
  int session_lines_ = 0;   // number of session lines, including faulty ones
};

}  // namespace

GpuMeasurements parse_gpu_measurements(std::string_view text, const std::string& name) {
  return MeasurementReader(text, name).run();
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
