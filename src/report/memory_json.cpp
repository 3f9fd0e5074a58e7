// Memory over the step for machines. Keys are a contract: more may be added, none renamed. Bytes
// and seconds.
//
//   schema, stepcast, title, job       as in the report of a step
//   step_time, capacity, fits          seconds; usable bytes of a GPU; of the fullest stage
//   stages[]
//     stage                            pipeline rank; the figures are those of its fullest GPU
//     peak                             {allocated, active, reserved, process}
//     steady, first_step_peak          allocated bytes between steps, and at most in the first step
//     host, nvme                       bytes of one GPU's share outside it
//     outside[]                        {what, bytes}: add up to process - reserved
//     retries                          of the allocator: cached memory given back because the GPU
//     was full at                               {time, task, micro_batch, chunk}: when allocated
//     bytes peak, on the host's clock, and
//                                      what the host issues next; null: nothing, or of no
//                                      micro-batch
//     by_category                      {parameters, gradients, optimizer, activations,
//     communication, workspace, other} at
//                                      the peak: add up to peak.allocated
//     timeline                         columns of equal length: time, the categories, allocated,
//     active, reserved; thinned,
//                                      with the largest and the smallest of every 600th of the
//                                      step; first and last are alike
//     at_peak[]                        {label, part_of, category, stream, bytes, count, total,
//     since, from_before}: largest
//                                      total first, add up to peak.allocated; `bytes` of one tensor
#include <array>
#include <functional>

#include "json_writer.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

constexpr int kSchema = 1;

using result::MemorySample;
using result::StageTimeline;

void write_categories(JsonWriter& out, const result::MemoryByCategory& bytes) {
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    out.key(word).integer(bytes[static_cast<std::size_t>(category)]);
  }
}

void write_timeline(JsonWriter& out, const std::vector<MemorySample>& samples) {
  out.key("timeline").object();
  out.key("time").array(true);
  for (const MemorySample& s : samples) {
    out.time(s.at);
  }
  out.close();
  const auto column = [&](const char* key,
                          const std::function<std::int64_t(const MemorySample&)>& of) {
    out.key(key).array(true);
    for (const MemorySample& s : samples) {
      out.integer(of(s));
    }
    out.close();
  };
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    const auto c = static_cast<std::size_t>(category);
    column(word, [c](const MemorySample& s) { return s.by_category[c]; });
  }
  column("allocated", [](const MemorySample& s) { return s.allocated; });
  column("active", [](const MemorySample& s) { return s.active; });
  column("reserved", [](const MemorySample& s) { return s.reserved; });
  out.close();
}

void write_place(JsonWriter& out, const StageTimeline& s) {
  out.key("at").object(true);
  out.key("time").time(s.peak_at);
  out.key("task");
  s.peak_in.empty() ? out.null() : out.text(s.peak_in);
  out.key("micro_batch");
  s.micro_batch < 0 ? out.null() : out.integer(s.micro_batch);
  out.key("chunk");
  s.chunk < 0 ? out.null() : out.integer(s.chunk);
  out.close();
}

void write_standing(JsonWriter& out, const std::vector<result::StandingTensor>& tensors) {
  out.key("at_peak").array();
  for (const result::StandingTensor& t : tensors) {
    out.object(true);
    out.key("label").text(t.label);
    out.key("part_of");
    t.part_of.empty() ? out.null() : out.text(t.part_of);
    out.key("category").text(to_string(t.category));
    out.key("stream").text(t.stream);
    out.key("bytes").integer(t.bytes);
    out.key("count").integer(t.count);
    out.key("total").integer(t.total());
    out.key("since");
    t.from_before ? out.null() : out.time(t.since);
    out.key("from_before").boolean(t.from_before);
    out.close();
  }
  out.close();
}

}  // namespace

std::string json(const result::MemoryTimeline& memory) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(kSchema);
  out.key("stepcast").text(STEPCAST_VERSION);
  out.key("title").text(memory.title);
  out.key("job").document(memory.job_json);
  out.key("step_time").time(memory.step);
  out.key("capacity").bytes(memory.capacity);
  out.key("fits").boolean(memory.fits);
  out.key("stages").array();
  for (const StageTimeline& s : memory.stages) {
    out.object();
    out.key("stage").integer(s.stage);
    out.key("peak").object(true);
    out.key("allocated").bytes(s.allocated);
    out.key("active").bytes(s.active);
    out.key("reserved").bytes(s.reserved);
    out.key("process").bytes(s.process);
    out.close();
    out.key("steady").bytes(s.steady);
    out.key("first_step_peak").bytes(s.first_step);
    out.key("host").bytes(s.host);
    out.key("nvme").bytes(s.nvme);
    out.key("outside").array();
    for (const StageTimeline::Outside& part : s.outside) {
      out.object(true).key("what").text(part.what).key("bytes").bytes(part.bytes).close();
    }
    out.close();
    out.key("retries").integer(s.retries);
    write_place(out, s);
    out.key("by_category").object(true);
    write_categories(out, s.peak);
    out.close();
    write_timeline(out, s.samples);
    write_standing(out, s.at_peak);
    out.close();
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
