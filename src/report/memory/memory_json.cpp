// Memory over the step as JSON, in bytes and seconds. Keys are a contract: more may be added, none
// renamed.
//
//   schema, stepcast, title, job       as in the report of a step
//   step_time, capacity, fits          seconds; usable bytes of a GPU; of the fullest stage
//   stages[]
//     stage                            pipeline rank; the figures are those of its fullest GPU
//     peak                             {allocated, active, reserved, process}
//     steady, first_step_peak          allocated bytes between steps, and at the first step's peak
//     host, nvme                       bytes of one GPU's share of host memory and drives
//     outside[]                        {what, bytes}: add up to process - reserved
//     retries                          times that the allocator freed its cache because the GPU
//                                      was full
//     at                               {time, task, micro_batch, chunk}: the time of the peak of
//                                      allocated bytes, on the host's clock, and the task that the
//                                      host issues next; null: no task, or one of no micro-batch
//     by_category                      {parameters, gradients, optimizer, activations,
//                                      communication, workspace, other} at the peak: add up to
//                                      peak.allocated
//     timeline                         columns of equal length: time, the categories, allocated,
//                                      active, reserved; thinned to the largest and the smallest
//                                      of every 600th of the step; first and last are equal
//     at_peak[]                        {label, part_of, category, stream, bytes, count, total,
//                                      since, from_before}: largest total first, add up to
//                                      peak.allocated; `bytes` of one tensor
#include "../record/value.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "memory_conclusion.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::MemorySample;
using result::StageTimeline;

Record category_fields(const result::MemoryByCategory& bytes) {
  Record out;
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    out.push_back({word, bytes[static_cast<std::size_t>(category)]});
  }
  return out;
}

// Columns of equal length.
Record timeline_fields(const std::vector<MemorySample>& samples) {
  Record out = {{"time", list(samples, [](const MemorySample& s) { return s.at; })}};
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    const auto c = static_cast<std::size_t>(category);
    out.push_back({word, list(samples, [c](const MemorySample& s) { return s.by_category[c]; })});
  }
  append(out, {{"allocated", list(samples, [](const MemorySample& s) { return s.allocated; })},
               {"active", list(samples, [](const MemorySample& s) { return s.active; })},
               {"reserved", list(samples, [](const MemorySample& s) { return s.reserved; })}});
  return out;
}

Record tensor_fields(const result::StandingTensor& t) {
  return {{"label", t.label},
          {"part_of", text_or_null(t.part_of)},
          {"category", to_string(t.category)},
          {"stream", t.stream},
          {"bytes", t.bytes},
          {"count", t.count},
          {"total", t.total()},
          {"since", if_known(!t.from_before, t.since)},
          {"from_before", t.from_before}};
}

Record outside_fields(const StageTimeline::Outside& part) {
  return {{"what", part.what}, {"bytes", part.bytes}};
}

Record stage_timeline_fields(const StageTimeline& s) {
  return {
      {"stage", s.stage},
      {"peak", object({{"allocated", s.allocated},
                       {"active", s.active},
                       {"reserved", s.reserved},
                       {"process", s.process}})},
      {"steady", s.steady},
      {"first_step_peak", s.first_step},
      {"host", s.host},
      {"nvme", s.nvme},
      {"outside", rows(s.outside, outside_fields)},
      {"retries", s.retries},
      {"at", object({{"time", s.peak_at},
                     {"task", text_or_null(s.peak_in)},
                     {"micro_batch", if_known(s.micro_batch >= 0, s.micro_batch)},
                     {"chunk", if_known(s.chunk >= 0, s.chunk)}})},
      {"by_category", object(category_fields(s.peak))},
      {"timeline", object(timeline_fields(s.samples), false)},
      {"at_peak", rows(s.at_peak, tensor_fields)},
  };
}

}  // namespace

std::string json(const result::MemoryTimeline& memory) {
  return json_of({{"schema", kFitSchema},
                  {"conclusion", conclusion(memory)},
                  {"stepcast", STEPCAST_VERSION},
                  {"title", memory.title},
                  {"job", Document{memory.job_json}},
                  {"step_time", memory.step},
                  {"capacity", memory.capacity},
                  {"fits", fit_value(memory.fits)},
                  {"stages", blocks(memory.stages, stage_timeline_fields)}});
}

}  // namespace stepcast::report
