#include "script.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

namespace stepcast::memory {

using program::Block;
using program::Buffer;
using program::BufferIndex;
using program::MemoryEvent;
using program::Place;
using program::Program;

namespace {

enum class Part : std::uint8_t { temporary, made, given_up, both };

struct Role {
  program::BufferIndex buffer;
  Part part = Part::temporary;
};

class Compiler {
 public:
  Compiler(const Program& p, const std::vector<MemoryEvent>& trace, Occasion occasion)
      : p_(p), trace_(trace), occasion_(occasion), lent_(lent()) {}

  Script compile() {
    Script s;
    s.first.reserve(p_.buffers.size() + 1);
    s.first.push_back(0);
    for (BufferIndex b; b < p_.buffers.size(); ++b) {
      s.first.push_back(s.first.back() + count_of(p_, b, Occasion::every_step));
    }
    if (occasion_ == Occasion::first_step) {
      number_first_step(s.first);
    }
    s.pass.assign(trace_.size(), 0);
    s.actions.reserve(trace_.size());
    for (const MemoryEvent& e : trace_) {
      const Buffer& b = p_.buffers[e.buffer];
      s.actions.push_back(b.place != Place::device ? Action::skip
                          : e.allocate             ? Action::allocate
                                                   : Action::release);
    }
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const Buffer& b = p_.buffers[trace_[i].buffer];
      if (trace_[i].allocate && b.transient && blocks_of(trace_[i].buffer) > 0 &&
          b.place == Place::device) {
        add_pass(i, s);
      }
    }
    return s;
  }

 private:
  void number_first_step(std::vector<std::uint32_t>& first) const {
    std::uint32_t next = first.back();
    for (BufferIndex b; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].first_step != program::kNone) {
        first[b] = next;
        next += count_of(p_, b, occasion_);
      }
    }
    first.back() = next;
  }
  std::uint32_t blocks_of(BufferIndex buffer) const {
    return tensors_of(p_, buffer, occasion_).blocks;
  }

  // By event of the trace: the buffer was used on another stream until its release. Empty: not
  // known.
  std::vector<bool> lent() const {
    std::vector<bool> out;
    for (const program::HostOp& op : p_.host) {
      if (op.kind == program::HostKind::allocate || op.kind == program::HostKind::release) {
        out.push_back(op.streams != 0);
      }
    }
    if (out.size() != trace_.size()) {
      out.clear();
    }
    return out;
  }

  bool kept(std::size_t event, bool allocate) const {
    const MemoryEvent& e = trace_[event];
    const Buffer& b = p_.buffers[e.buffer];
    return e.allocate == allocate && !b.transient && b.place == Place::device;
  }
  // Its last use on this pass's own stream is what frees it.
  bool given_up(std::size_t event) const {
    return blocks_of(trace_[event].buffer) > 0 && trace_[event].safe <= trace_[event].time &&
           (lent_.empty() || !lent_[event]);
  }

  void add_pass(std::size_t begin, Script& s) {
    const program::BufferIndex transient = trace_[begin].buffer;
    std::size_t end = begin + 1;
    while (end < trace_.size() && (trace_[end].buffer != transient || trace_[end].allocate)) {
      ++end;
    }
    std::vector<Role>& roles = roles_;
    roles.clear();
    std::size_t from = begin;
    while (from > 0 && kept(from - 1, true) && s.actions[from - 1] == Action::allocate) {
      --from;
    }
    for (std::size_t i = from; i < begin; ++i) {
      if (blocks_of(trace_[i].buffer) > 0) {
        roles.push_back({trace_[i].buffer, Part::made});
        s.actions[i] = Action::skip;
      }
    }
    roles.push_back({transient, Part::temporary});
    if (end < trace_.size()) {
      s.actions[end] = Action::skip;
      std::size_t first = end;
      while (first > begin + 1 && kept(first - 1, false)) {
        --first;
      }
      for (std::size_t i = first; i < trace_.size() && (i == end || kept(i, false)); ++i) {
        if (i == end || !given_up(i)) {
          continue;
        }
        const auto same = [&](const Role& r) { return r.buffer == trace_[i].buffer; };
        const auto at = std::find_if(roles.begin(), roles.end(), same);
        if (at != roles.end()) {
          at->part = Part::both;
        } else {
          roles.push_back({trace_[i].buffer, Part::given_up});
        }
      }
    }
    Pass pass;
    pass.end = static_cast<std::uint32_t>(std::min(end, trace_.size() - 1));
    pass.first_role = static_cast<std::uint32_t>(s.roles.size());
    std::tie(pass.first_call, pass.calls) = calls_of(roles, s);
    for (const Role& r : roles) {
      s.roles.push_back(r.buffer);
    }
    s.actions[begin] = Action::pass;
    s.pass[begin] = static_cast<std::uint32_t>(s.passes.size());
    s.passes.push_back(pass);
  }

  std::pair<std::uint32_t, std::uint32_t> calls_of(const std::vector<Role>& roles, Script& s) {
    std::vector<std::uint32_t>& shape = shape_;
    shape.clear();
    for (const Role& r : roles) {
      const program::FirstStepBuffer b = tensors_of(p_, r.buffer, occasion_);
      shape.push_back(b.first_block);
      shape.push_back(b.blocks);
      shape.push_back(static_cast<std::uint32_t>(r.part));
    }
    if (const auto known = shapes_.find(shape); known != shapes_.end()) {
      return known->second;
    }
    const auto at = shapes_.emplace(shape, std::pair<std::uint32_t, std::uint32_t>()).first;
    struct Placed {
      std::uint32_t place = 0;
      bool release = false;
      PassCall call;
    };
    std::vector<Placed> placed;
    for (std::size_t r = 0; r < roles.size(); ++r) {
      const program::FirstStepBuffer b = tensors_of(p_, roles[r].buffer, occasion_);
      const Part part = roles[r].part;
      for (std::uint32_t k = 0; k < b.blocks; ++k) {
        const Block& block = p_.blocks[b.first_block + k];
        const PassCall call{block.bytes.count(), 0, k, static_cast<std::uint16_t>(r), true};
        if (block.bytes.count() <= 0) {
          continue;
        }
        if (part != Part::given_up) {
          placed.push_back({block.begin, false, call});
        }
        // What is kept may outlive the pass; a temporary does not.
        const bool early = block.end != 0xffff && part != Part::made;
        if (early || part == Part::temporary) {
          placed.push_back({block.end, true, call});
          placed.back().call.allocate = false;
        }
      }
    }
    // What an operator makes stands beside what is freed behind it.
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.place, a.release) < std::tie(b.place, b.release);
    });
    std::uint32_t last = 0;  // place
    for (const Placed& x : placed) {
      last = x.place != 0xffff ? std::max(last, x.place) : last;
    }
    at->second = {static_cast<std::uint32_t>(s.calls.size()),
                  static_cast<std::uint32_t>(placed.size())};
    for (Placed& x : placed) {
      const std::uint64_t place = std::min(x.place, last + 1);
      x.call.fraction = static_cast<std::uint32_t>((place << 16U) / (std::uint64_t{last} + 1));
      s.calls.push_back(x.call);
    }
    return at->second;
  }

  const Program& p_;
  const std::vector<MemoryEvent>& trace_;
  const Occasion occasion_;
  std::vector<bool> lent_;
  std::vector<Role> roles_;           // of the pass under way
  std::vector<std::uint32_t> shape_;  // likewise
  std::map<std::vector<std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> shapes_;
};

}  // namespace

program::FirstStepBuffer tensors_of(const Program& program, BufferIndex buffer, Occasion occasion) {
  const Buffer& b = program.buffers[buffer];
  if (occasion == Occasion::first_step && b.first_step != program::kNone) {
    return program.first_steps[b.first_step];
  }
  return {b.bytes, b.first_block, b.blocks, b.taken, b.handed};
}

std::uint32_t count_of(const Program& program, BufferIndex buffer, Occasion occasion) {
  return std::max<std::uint32_t>(1, tensors_of(program, buffer, occasion).blocks);
}

Script compile(const Program& program, const std::vector<MemoryEvent>& trace, Occasion occasion) {
  return Compiler(program, trace, occasion).compile();
}

}  // namespace stepcast::memory
