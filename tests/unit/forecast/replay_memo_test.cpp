// Sources of tapes: whatever changes the tape changes the source's digests.
#include "forecast/replay_memo.h"

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::program;

namespace {

struct Source {
  Program p;
  std::vector<MemoryEvent> trace;
};

// A pass whose temporaries stand beside a tensor that it makes and one that it reads last.
Source source() {
  Source out;
  Program& p = out.p;
  const auto buffer = [&](std::int64_t bytes, std::uint32_t blocks) {
    Buffer b;
    b.bytes = Bytes(bytes);
    b.first_block = static_cast<std::uint32_t>(p.blocks.size());
    b.blocks = blocks;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      p.blocks.push_back({Bytes(bytes / blocks), 0, static_cast<std::uint16_t>(i),
                          static_cast<std::uint16_t>(i + 1)});
    }
    p.buffers.push_back(b);
    return BufferIndex::at(p.buffers.size() - 1);
  };
  const BufferIndex states = buffer(4096, 0);
  p.buffers[states].persistent = true;
  const BufferIndex made = buffer(8192, 2);
  const BufferIndex pass = buffer(16384, 2);
  p.buffers[pass].transient = true;
  const BufferIndex plain = buffer(1024, 0);
  const auto event = [&](std::int64_t time, BufferIndex of, bool allocate) {
    HostOp op;
    op.kind = allocate ? HostKind::allocate : HostKind::release;
    op.buffer = of;
    p.host.push_back(op);
    out.trace.push_back({Time(time), Time(time), of, allocate});
  };
  event(1, plain, true);
  event(2, made, true);
  event(2, pass, true);
  event(9, pass, false);
  event(9, made, false);
  event(10, plain, false);
  return out;
}

}  // namespace

TEST_CASE("what changes a tape changes the digests of its source") {
  using Change = std::function<void(Source&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"bytes", [](Source& s) { s.p.buffers[3].bytes = Bytes(2048); }},
      {"category", [](Source& s) { s.p.buffers[3].category = MemoryCategory::workspace; }},
      {"stream", [](Source& s) { s.p.buffers[3].stream = StreamIndex::at(1); }},
      {"persistent", [](Source& s) { s.p.buffers[0].persistent = false; }},
      {"first block", [](Source& s) { s.p.buffers[1].first_block = 1; }},
      {"blocks", [](Source& s) { s.p.buffers[1].blocks = 1; }},
      {"transient", [](Source& s) { s.p.buffers[2].transient = false; }},
      {"lazy", [](Source& s) { s.p.buffers[0].lazy = true; }},
      {"later", [](Source& s) { s.p.buffers[0].later = true; }},
      {"initial", [](Source& s) { s.p.buffers[3].initial = true; }},
      {"among persistent",
       [](Source& s) { s.p.buffers[3].initial = s.p.buffers[3].among_persistent = true; }},
      {"place", [](Source& s) { s.p.buffers[3].place = Place::host; }},
      {"block's bytes", [](Source& s) { s.p.blocks[0].bytes = Bytes(512); }},
      {"block's begin", [](Source& s) { s.p.blocks[3].begin = 0; }},
      {"block's end", [](Source& s) { s.p.blocks[0].end = 2; }},
      {"lent", [](Source& s) { s.p.host[4].streams = 2; }},
      {"lazy from",
       [](Source& s) {
         s.p.buffers[0].lazy = true;
         s.p.lazy_from = 2;
       }},
      {"first step's extra", [](Source& s) { s.p.first_step_extra = Bytes(4096); }},
      {"first step's tensors",
       [](Source& s) {
         s.p.first_steps.push_back({Bytes(4096)});
         s.p.buffers[3].first_step = 0;
       }},
      {"an event's buffer", [](Source& s) { std::swap(s.trace[0].buffer, s.trace[1].buffer); }},
      {"an event's kind", [](Source& s) { s.trace[5].allocate = true; }},
      {"an event less", [](Source& s) { s.trace.pop_back(); }},
  };
  const auto tape_of = [](const Source& s) {
    return memory::record_tape(s.p, s.trace, Time{0}).tape;
  };
  const Source of = source();
  const forecast::SourceDigests digests = forecast::digests_of(of.p, of.trace);
  int moved = 0;
  for (const auto& [name, change] : changes) {
    INFO(name);
    Source other = source();
    change(other);
    const forecast::SourceDigests changed = forecast::digests_of(other.p, other.trace);
    CHECK(changed.all != digests.all);
    CHECK((changed.form == digests.form) == std::string_view(name).ends_with("bytes"));
    moved += tape_of(of) == tape_of(other) ? 0 : 1;
  }
  CHECK(moved > 15);  // the changes are ones that matter
  Source later = source();
  for (MemoryEvent& e : later.trace) {
    e.time = e.safe = 3 * e.time;
  }
  CHECK(forecast::digests_of(of.p, of.trace) == forecast::digests_of(later.p, later.trace));
  CHECK(tape_of(of) == tape_of(later));
}

namespace {

// Two passes, the first of which hands its second tensor to the other; and what is made ahead of
// the first step.
Source source_with_hand_over() {
  Source out = source();
  Program& p = out.p;
  for (BufferIndex b : {BufferIndex::at(4), BufferIndex::at(5)}) {
    Buffer pass = p.buffers[2];
    pass.first_block = static_cast<std::uint32_t>(p.blocks.size());
    p.blocks.push_back({Bytes(6144), 0, 0, 0xffff});
    p.blocks.push_back({Bytes(6144), 0, 1, 0xffff});
    (b == BufferIndex::at(4) ? pass.handed : pass.taken) = b == BufferIndex::at(4) ? 1 : 0;
    p.buffers.push_back(pass);
    for (const bool allocate : {true, false}) {
      HostOp op;
      op.kind = allocate ? HostKind::allocate : HostKind::release;
      op.buffer = b;
      p.host.push_back(op);
      out.trace.push_back({Time(20), Time(20), b, allocate});
    }
  }
  p.making = {{Bytes(2048), kNone, 0}, {Bytes(4096), BufferIndex::at(0), 0}, {Bytes(0), kNone, 0}};
  p.first_step_extra = Bytes(1000);
  p.buffers[3].initial = true;
  return out;
}

void scale(Source& s, std::int64_t by) {
  for (Block& b : s.p.blocks) {
    b.bytes = by * b.bytes;
  }
  for (Buffer& b : s.p.buffers) {
    b.bytes = by * b.bytes;
  }
  for (Making& m : s.p.making) {
    m.bytes = by * m.bytes;
  }
  s.p.first_step_extra = by * s.p.first_step_extra;
}

}  // namespace

TEST_CASE("a tape that is set to other sizes is the one that is recorded of them") {
  const Source of = source_with_hand_over();
  const auto form = forecast::digests_of(of.p, of.trace).form;
  memory::RecordedTape tape;
  memory::record_tape(of.p, of.trace, Time{0}, tape);
  for (const std::int64_t by : {3, 1, 700}) {
    Source other = source_with_hand_over();
    scale(other, by);
    CHECK(forecast::digests_of(other.p, other.trace).form == form);
    memory::set_sizes(other.p, tape);
    CHECK(tape.tape == memory::record_tape(other.p, other.trace, Time{0}).tape);
  }
  // What is handed on is one tensor only where both are of one size.
  Source apart = source_with_hand_over();
  apart.p.blocks[apart.p.buffers[4].first_block + 1].bytes = Bytes(12288);
  CHECK(forecast::digests_of(apart.p, apart.trace).form != form);
  CHECK(memory::record_tape(apart.p, apart.trace, Time{0}).tape.calls.size() !=
        tape.tape.calls.size());
}

TEST_CASE("a tape is kept once its form comes again") {
  forecast::ReplayMemo memo;
  const forecast::DigestPair form{1, 2};
  CHECK(memo.keep_tape(form) == nullptr);
  memory::RecordedTape* const kept = memo.keep_tape(form);
  REQUIRE(kept != nullptr);
  CHECK(memo.find_tape(form) == kept);
  CHECK(memo.find_tape({1, 3}) == nullptr);
}
