// Reads the trace of PyTorch's profiler (Kineto): Chrome's trace format, with the profiler's own
// categories and arguments. Events come in any order; what an event is, its members "ph" and "cat"
// say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "decimal.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/chakra.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {
namespace {

// Members that are read; the rest is passed over.
enum class Key : std::uint8_t {
  none,
  ph,
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  args,
  device,
  stream,
  correlation,
  bytes,
  bandwidth,
  dims,
  types,
  inputs,
  operation,
  group,
  group_text,
  group_ranks,
  group_size,
  in_elements,
  out_elements,
  dtype,
};

struct Known {
  std::string_view text;
  Key key;
  bool in_args;
};
constexpr Known kKnown[] = {
    {"ph", Key::ph, false},
    {"cat", Key::cat, false},
    {"name", Key::name, false},
    {"pid", Key::pid, false},
    {"tid", Key::tid, false},
    {"ts", Key::ts, false},
    {"dur", Key::dur, false},
    {"args", Key::args, false},
    {"device", Key::device, true},
    {"stream", Key::stream, true},
    {"correlation", Key::correlation, true},
    {"bytes", Key::bytes, true},
    {"memory bandwidth (GB/s)", Key::bandwidth, true},
    {"Input Dims", Key::dims, true},
    {"Input dims", Key::dims, true},
    {"Input type", Key::types, true},
    {"Concrete Inputs", Key::inputs, true},
    {"Collective name", Key::operation, true},
    {"Process Group Name", Key::group, true},
    {"Process Group Description", Key::group_text, true},
    {"Process Group Ranks", Key::group_ranks, true},
    {"Group size", Key::group_size, true},
    {"In msg nelems", Key::in_elements, true},
    {"Out msg nelems", Key::out_elements, true},
    {"dtype", Key::dtype, true},
};

Key key_of(bool in_args, std::string_view text) {
  for (const Known& known : kKnown) {
    if (known.in_args == in_args && known.text == text) {
      return known.key;
    }
  }
  return Key::none;
}

enum class EventCategory : std::uint8_t {
  unknown,
  kernel,
  copy,
  memset,
  runtime,
  host_operator,
  annotation,
  device_annotation,
  other,
};

// Categories of today, and of PyTorch before 1.13.
EventCategory event_category_of(std::string_view cat) {
  constexpr std::pair<std::string_view, EventCategory> kCategories[] = {
      {"kernel", EventCategory::kernel},
      {"Kernel", EventCategory::kernel},
      {"gpu_memcpy", EventCategory::copy},
      {"Memcpy", EventCategory::copy},
      {"gpu_memset", EventCategory::memset},
      {"Memset", EventCategory::memset},
      {"cuda_runtime", EventCategory::runtime},
      {"cuda_driver", EventCategory::runtime},
      {"hip_runtime", EventCategory::runtime},
      {"Runtime", EventCategory::runtime},
      {"cpu_op", EventCategory::host_operator},
      {"Operator", EventCategory::host_operator},
      {"user_annotation", EventCategory::annotation},
      {"gpu_user_annotation", EventCategory::device_annotation},
  };
  for (const auto& [text, category] : kCategories) {
    if (text == cat) {
      return category;
    }
  }
  return EventCategory::other;
}

// Calls that start work on the device: cudaLaunchKernelExC, hipModuleLaunchKernel,
// cudaGraphLaunch...
bool launches(std::string_view name) {
  return name.find("Launch") != name.npos || name.find("Memcpy") != name.npos ||
         name.find("Memset") != name.npos || name == "INVALID";
}

// Calls in which the host may wait for the device: cudaStreamSynchronize, hipDeviceSynchronize...,
// and those of copies, which return after the copy where the host's memory is pageable.
bool copies(std::string_view name) { return name.find("Memcpy") != name.npos; }
bool may_wait(std::string_view name) {
  return name.find("Synchronize") != name.npos || copies(name);
}

// Operators whose shapes say what their kernels compute, or which issue a collective.
bool keeps_shapes(std::string_view name) {
  constexpr std::string_view kNames[] = {"aten::mm",          "aten::addmm",
                                         "aten::bmm",         "aten::baddbmm",
                                         "aten::_scaled_mm",  "aten::_addmm_activation",
                                         "aten::_grouped_mm", "aten::_scaled_grouped_mm",
                                         "FlashAttnFunc",     "record_param_comms"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         ((name.starts_with("aten::") || name.starts_with("flash_attn")) &&
          (name.find("attention") != name.npos || name.find("attn") != name.npos));
}

// PyTorch's names of collectives as NCCL has them.
std::string operation_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kOperations[] = {
      {"allreduce", "all_reduce"},
      {"allgather", "all_gather"},
      {"allgather_base", "all_gather"},
      {"reducescatter", "reduce_scatter"},
      {"reducescatter_base", "reduce_scatter"},
      {"reduce_scatter_base", "reduce_scatter"},
      {"reduce_scatter_tensor", "reduce_scatter"},
      {"all_to_all", "all_to_all"},
      {"all_to_allv", "all_to_all"},
  };
  std::string plain(name);
  if (plain.starts_with('_')) {
    plain.erase(0, 1);
  }
  for (const std::string_view end : {"_coalesced", "_into_tensor"}) {
    if (plain.ends_with(end)) {
      plain.erase(plain.size() - end.size());
    }
  }
  for (const auto& [from, to] : kOperations) {
    if (plain == from) {
      return std::string(to);
    }
  }
  return plain;
}

// A table of texts, each once.
class Texts {
 public:
  // The text's number; `made` is called for a new one.
  template <class Make>
  std::uint32_t of(std::string_view text, Make made) {
    key_.assign(text);
    const auto [at, is_new] =
        numbers_.try_emplace(key_, static_cast<std::uint32_t>(numbers_.size()));
    if (is_new) {
      made();
    }
    return at->second;
  }

 private:
  std::string key_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

struct Draft {
  EventCategory category = EventCategory::unknown;
  char ph = '\0';
  bool bad = false;  // a number that is none
  std::string name, pid, tid, dims, types, inputs;
  std::optional<Decimal> ts, dur;
  std::int64_t device = -1, stream = -1, correlation = -1, bytes = 0;
  double bandwidth = 0;
  CollectiveCall call;
  std::string group_text;

  void clear() {
    category = EventCategory::unknown;
    ph = '\0';
    bad = false;
    for (std::string* text : {&name, &pid, &tid, &dims, &types, &inputs, &group_text}) {
      text->clear();
    }
    ts = dur = std::nullopt;
    device = stream = correlation = -1;
    bytes = 0;
    bandwidth = 0;
    if (!call.operation.empty() || !call.group.empty() || !call.dtype.empty()) {
      call = {};
    }
  }
};

class KinetoReader final : public text::JsonListReader {
 public:
  explicit KinetoReader(Trace& trace) : trace_(trace) {}

  void fact(std::string_view path, std::string_view value) override {
    if (path == "distributedInfo.rank") {
      trace_.rank = static_cast<int>(parse_whole(value).value_or(-1));
    } else if (path == "distributedInfo.world_size") {
      trace_.world_size = static_cast<int>(parse_whole(value).value_or(0));
    } else if (path == "distributedInfo.nccl_version") {
      trace_.nccl_version = value;
    } else if (path == "schemaVersion") {
      schema_ = value;
    } else if (path.starts_with("deviceProperties.") && path.ends_with(".name") &&
               trace_.device.empty()) {
      trace_.device = value;
    }
  }

  void begin() override { draft_.clear(); }

  bool wants(std::string_view parent, std::string_view key) override {
    key_ = key_of(!parent.empty(), key);
    switch (key_) {
      case Key::none:
        return false;
      case Key::args:
        return draft_.category != EventCategory::other &&
               draft_.category != EventCategory::annotation &&
               draft_.category != EventCategory::device_annotation;
      case Key::dims:
      case Key::types:
      case Key::inputs:
        return draft_.category == EventCategory::host_operator && keeps_shapes(draft_.name);
      default:
        return true;
    }
  }

  bool member(std::string_view, std::string_view, std::string_view value, text::JsonKind) override {
    Draft& d = draft_;
    switch (key_) {
      case Key::ph:
        d.ph = value.empty() ? '\0' : value.front();
        return d.ph == 'X';
      case Key::cat:
        d.category = event_category_of(value);
        return d.category != EventCategory::other;
      case Key::name:
        d.name = value;
        return true;
      case Key::pid:
        d.pid = value;
        return true;
      case Key::tid:
        d.tid = value;
        return true;
      case Key::ts:
        d.ts = parse_decimal(value);
        return true;
      case Key::dur:
        d.dur = parse_decimal(value);
        return true;
      case Key::bandwidth:
        if (const auto rate = parse_decimal(value)) {
          d.bandwidth =
              static_cast<double>(rate->whole) + 1e-6 * static_cast<double>(rate->millionths);
        }
        return true;
      case Key::dims:
        d.dims = value;
        return true;
      case Key::types:
        d.types = value;
        return true;
      case Key::inputs:
        d.inputs = value;
        return true;
      default:
        argument(value);
        return true;
    }
  }

  void end() override {
    Draft& d = draft_;
    if (d.ph != 'X' || d.category == EventCategory::other || d.category == EventCategory::unknown ||
        d.category == EventCategory::device_annotation) {
      return;
    }
    const auto start = d.ts ? time_of(*d.ts) : std::nullopt;
    const auto duration = d.dur ? length_of(*d.dur) : std::nullopt;
    if (!start || !duration) {
      ++trace_.damaged;
      return;
    }
    switch (d.category) {
      case EventCategory::annotation:
        if (d.name.starts_with("ProfilerStep")) {
          trace_.steps.push_back({d.name, *start, *duration});
        }
        phase(*start, *duration);
        break;
      case EventCategory::runtime:
        runtime_call(*start, *duration);
        break;
      case EventCategory::host_operator:
        phase(*start, *duration);
        if (d.name.starts_with("ProfilerStep")) {  // PyTorch before 1.13
          trace_.steps.push_back({d.name, *start, *duration});
        } else if (keeps_shapes(d.name)) {
          trace_.host.push_back({*start, *start + *duration, thread(), shapes()});
        }
        break;
      default:
        device_event(*start, *duration);
    }
  }

  // Whether the durations of copies, and the rates that the profiler states for them, make the unit
  // of time nanoseconds.
  bool copies_say_nanoseconds() const { return nanosecond_copies_ > microsecond_copies_; }
  bool nanoseconds() const { return nanoseconds_; }
  // Of the file's format; "": not stated.
  const std::string& schema() const { return schema_; }

 private:
  void argument(std::string_view value) {
    Draft& d = draft_;
    const auto number = [&](std::int64_t absent) { return parse_whole(value).value_or(absent); };
    switch (key_) {
      case Key::device:
        d.device = number(-1);
        break;
      case Key::stream:
        d.stream = number(-1);
        break;
      case Key::correlation:
        d.correlation = number(-1);
        break;
      case Key::bytes:
        d.bytes = number(0);
        break;
      case Key::operation:
        d.call.operation = operation_of(value);
        break;
      case Key::group:
        d.call.group = value;
        break;
      case Key::group_text:
        d.group_text = value;
        break;
      case Key::group_ranks:
        d.call.ranks = value;
        break;
      case Key::group_size:
        d.call.group_size = static_cast<int>(std::clamp<std::int64_t>(number(0), 0, 1 << 30));
        break;
      case Key::in_elements:
        d.call.in_elements = number(0);
        break;
      case Key::out_elements:
        d.call.out_elements = number(0);
        break;
      case Key::dtype:
        d.call.dtype = value;
        break;
      default:
        break;
    }
  }

  // Since the trace's first event; nothing where it is further away than Time can hold.
  std::optional<Time> time_of(const Decimal& stamp) {
    if (!base_) {
      base_ = stamp.whole;
      // Microseconds since 1970 have 16 digits; 18 are reached in the year 33658.
      nanoseconds_ = stamp.whole >= 100'000'000'000'000'000;
    }
    std::int64_t since = 0;
    if (__builtin_sub_overflow(stamp.whole, *base_, &since)) {
      return std::nullopt;
    }
    return length_of({since, stamp.millionths}, true);
  }

  std::optional<Time> length_of(const Decimal& length, bool may_be_negative = false) const {
    constexpr std::int64_t kPicosecondsOfUnit = 1'000'000;
    // Sums and differences of times must fit as well.
    constexpr std::int64_t kLongest = INT64_MAX / kPicosecondsOfUnit / 8;
    if (length.whole > kLongest || length.whole < -kLongest ||
        (!may_be_negative && (length.whole < 0 || length.millionths < 0))) {
      return std::nullopt;
    }
    const std::int64_t picoseconds = length.whole * kPicosecondsOfUnit + length.millionths;
    return Time(nanoseconds_ ? picoseconds / 1000 : picoseconds);
  }

  // Nodes of autograd's graph are the backward pass; optimizers mark their steps themselves.
  // Annotations of programs that split the backward pass: "attn(B)", "mlp(W)".
  void phase(Time start, Time duration) {
    const std::string_view name = draft_.name;
    const bool optimizer = name.starts_with("Optimizer.step");
    if (optimizer || name.starts_with("autograd::engine::evaluate_function") ||
        name.ends_with("(B)") || name.ends_with("(W)")) {
      trace_.phases.push_back({start, start + duration, thread(), optimizer});
    }
  }

  void runtime_call(Time start, Time duration) {
    const Draft& d = draft_;
    if (d.correlation >= 0 && launches(d.name)) {
      trace_.launches.push_back({d.correlation, start, thread()});
    }
    if (may_wait(d.name)) {
      trace_.waits.push_back({start, start + duration, d.correlation, copies(d.name)});
    }
  }

  std::uint32_t thread() {
    return threads_.of(draft_.pid + " " + draft_.tid, [] {});
  }

  std::uint32_t call() {
    Draft& d = draft_;
    if (d.call.operation.empty() && d.call.group.empty()) {
      return kNone;
    }
    if (!d.group_text.empty() && d.group_text != "undefined") {
      d.call.group += (d.call.group.empty() ? "" : " ") + d.group_text;
    }
    const CollectiveCall& c = d.call;
    return calls_.of(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", c.operation, c.group, c.ranks,
                                 c.group_size, c.in_elements, c.out_elements, c.dtype),
                     [&] { trace_.calls.push_back(c); });
  }

  std::uint32_t shapes() {
    const Draft& d = draft_;
    const std::uint32_t issued = call();
    return operators_.of(
        fmt::format("{}\n{}\n{}\n{}\n{}", d.name, d.dims, d.types, d.inputs, issued), [&] {
          trace_.operators.push_back({d.name, d.dims, d.types, d.inputs, issued});
        });
  }

  void device_event(Time start, Time duration) {
    Draft& d = draft_;
    DeviceEvent event;
    event.start = start;
    event.duration = duration;
    event.correlation = d.correlation;
    const bool kernel = d.category == EventCategory::kernel;
    event.name = names_.of(d.name, [&] {
      trace_.names.push_back(d.name);
      trace_.known.push_back(kernel ? kernel_name(d.name) : copy_name(d.name));
    });
    const std::int64_t device = d.device >= 0 ? d.device : parse_whole(d.pid).value_or(0);
    const std::int64_t stream = d.stream >= 0 ? d.stream : parse_whole(d.tid).value_or(0);
    const auto [at, is_new] =
        streams_.try_emplace({device, stream}, static_cast<std::uint32_t>(trace_.streams.size()));
    if (is_new) {
      trace_.streams.push_back({device, stream});
    }
    event.stream = at->second;
    if (kernel) {
      event.call = call();
    } else {
      compare_unit(duration);
    }
    trace_.events.push_back(event);
  }

  // The profiler computes a copy's rate from its own clock: the duration shows in which unit it is.
  void compare_unit(Time duration) {
    if (draft_.bandwidth <= 0 || draft_.bytes <= 0 || duration < Time(10'000'000)) {
      return;
    }
    const double by_rate = static_cast<double>(draft_.bytes) / (draft_.bandwidth * 1e9);
    const double ratio = to_seconds(duration) / by_rate;
    if (ratio > 0.5 && ratio < 2) {
      ++microsecond_copies_;
    } else if (ratio > 500 && ratio < 2000) {
      ++nanosecond_copies_;
    }
  }

  Trace& trace_;
  Draft draft_;
  Key key_ = Key::none;
  std::optional<std::int64_t> base_;
  bool nanoseconds_ = false;
  std::string schema_;
  std::int64_t microsecond_copies_ = 0, nanosecond_copies_ = 0;
  Texts names_, threads_, calls_, operators_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> streams_;
};

[[noreturn]] void refuse(const std::filesystem::path& file, std::string why) {
  throw InputError(Fault{{file.string(), 0, 0}, std::move(why)});
}

// Whether a file without a list of events is a trace of Chakra.
bool is_chakra(const text::JsonStream& stream) {
  const auto& keys = stream.keys;
  if (!stream.json || keys.empty()) {
    return !stream.compressed && !stream.head.empty() && begins_as_chakra(stream.head);
  }
  return std::find(keys.begin(), keys.end(), "workload_graph") != keys.end();
}

// What a file without a list of events is.
std::string other_file(const text::JsonStream& stream) {
  const auto has = [&](std::string_view key) {
    return std::find(stream.keys.begin(), stream.keys.end(), key) != stream.keys.end();
  };
  const std::string expected =
      "; expected a trace of PyTorch's profiler (JSON with traceEvents, plain or compressed by "
      "gzip), or one of Chakra";
  if (has("schema") && has("nodes")) {
    return "is an execution trace of PyTorch: operators of the host, which state no times and no "
           "kernels; Chakra's converter links it with a profile" +
           expected;
  }
  if (!stream.json && stream.compressed && begins_as_chakra(stream.head)) {
    return "is compressed and no JSON document; an execution trace of Chakra is read uncompressed" +
           expected;
  }
  if (stream.head.empty()) {
    return "is empty" + expected;
  }
  if (stream.head.size() > 262 && stream.head.substr(257, 5) == "ustar") {
    return "is a tar archive" + expected;
  }
  return (stream.json ? "has no list traceEvents" : "is no JSON document") + expected;
}

void divide_times(Trace& trace, std::int64_t by) {
  const auto divide = [by](Time& time) { time = Time(time.count() / by); };
  for (DeviceEvent& event : trace.events) {
    divide(event.start), divide(event.duration);
  }
  for (Launch& launch : trace.launches) {
    divide(launch.start);
  }
  for (HostCall& call : trace.waits) {
    divide(call.start), divide(call.end);
  }
  for (HostOperator& op : trace.host) {
    divide(op.start), divide(op.end);
  }
  for (HostPhase& phase : trace.phases) {
    divide(phase.start), divide(phase.end);
  }
  for (Step& step : trace.steps) {
    divide(step.start), divide(step.duration);
  }
}

void add_remarks(Trace& trace, const text::JsonStream& stream) {
  if (!stream.why.empty()) {
    trace.remarks.push_back(
        fmt::format("decompression stopped after {} bytes of text: {}; what came before is used",
                    stream.bytes, stream.why));
  }
  if (stream.cut) {
    trace.remarks.push_back(fmt::format(
        "the file ends within its list of events, after {} whole events; these are used",
        stream.objects));
  }
  if (stream.damaged > 0 && !(stream.cut && stream.damaged == 1)) {
    trace.remarks.push_back(fmt::format(
        "{} places of the file are damaged, the first at byte {} of its text; the events "
        "in them are left out",
        stream.damaged, stream.first_fault));
  }
  if (trace.damaged > 0) {
    trace.remarks.push_back(
        fmt::format("{} events state no valid time and are left out", trace.damaged));
  }
  if (trace.events.empty()) {
    trace.remarks.emplace_back("no device events: the profile holds work of the host alone");
  }
}

}  // namespace

Trace read(const std::filesystem::path& file) {
  Trace trace;
  trace.file = file.string();
  KinetoReader reader(trace);
  const text::JsonStream stream = text::stream_json(file, "traceEvents", reader);
  if (!stream.found) {
    if (is_chakra(stream)) {
      Trace events = events_of(read_chakra(file), file);
      events.bytes = stream.bytes;
      return events;
    }
    refuse(file, other_file(stream));
  }
  if (!reader.schema().empty() && reader.schema() != "1") {
    refuse(file, fmt::format("is a profile of schemaVersion {}; expected 1", reader.schema()));
  }
  if (stream.objects == 0 && stream.damaged > 0) {
    refuse(file, "has no whole event; expected a trace of PyTorch's profiler");
  }
  trace.bytes = stream.bytes;
  trace.objects = stream.objects;
  trace.nanoseconds = reader.nanoseconds();
  if (!trace.nanoseconds && reader.copies_say_nanoseconds()) {
    trace.nanoseconds = true;
    divide_times(trace, 1000);
  }
  std::stable_sort(trace.steps.begin(), trace.steps.end(),
                   [](const Step& a, const Step& b) { return a.start < b.start; });
  add_remarks(trace, stream);
  trace.damaged += stream.damaged;
  return trace;
}

}  // namespace stepcast::trace
