#include "traced.h"

#include <algorithm>

#include "muted.h"

namespace stepcast::lower::test {
namespace {

class Reader {
 public:
  Reader(const program::World& world, const program::Program& program)
      : world_(world), program_(program) {}

  std::vector<std::string> lines() {
    for (const program::Buffer& b : program_.buffers) {
      if (b.persistent) {
        lines_.push_back("= " + sized(b));
      }
    }
    for (const program::HostOp& op : program_.host) {
      add(op);
    }
    return std::move(lines_);
  }

 private:
  std::string stream(program::StreamIndex index) const { return program_.streams[index].name; }

  std::string sized(const program::Buffer& b) const {
    return program_.labels[b.label] + " " + std::to_string(b.bytes.count());
  }

  // Prices of a task are looked up for rank 0, whose groups have the size of all others.
  std::string bytes(const program::Task& t) const {
    const program::Rank& rank = world_.ranks[0];
    if (t.kind == program::TaskKind::collective) {
      const auto id = world_.communicator_table[rank.first_communicator + t.communicator];
      const auto shape = world_.communicators[id].shape;
      return " " + std::to_string(world_.shapes[shape].prices[t.price].bytes.count());
    }
    if (t.kind == program::TaskKind::copy) {
      return " " + std::to_string(world_.shapes[rank.copy_shape].prices[t.price].bytes.count());
    }
    return "";
  }

  std::string task(const program::Task& t) const {
    const bool in_pass = t.kind == program::TaskKind::kernel &&
                         t.category == program::Category::compute && t.micro_batch != 0xffff &&
                         t.communicator == 0 && t.stream == 0 &&
                         program_.labels[t.label].find("gradients") == std::string::npos;
    std::string line =
        stream(t.stream) + ": " + (in_pass ? "pass" : program_.labels[t.label]) + bytes(t);
    for (std::uint32_t i = 0; i < t.waits; ++i) {
      const program::Wait& w = program_.waits[t.first_wait + i];
      line +=
          (i == 0 ? " <- " : ", ") + stream(w.stream) + (w.lag == 1 ? " of the step before" : "");
    }
    return line;
  }

  // What the first step alone has.
  bool of_first_step(const program::HostOp& op) const {
    const bool moves =
        op.kind == program::HostKind::allocate || op.kind == program::HostKind::release;
    return moves && program_.buffers[op.buffer].bytes == Bytes(0);
  }

  void add(const program::HostOp& op) {
    if (of_first_step(op)) {
      return;
    }
    if (op.kind == program::HostKind::launch) {
      for (std::uint32_t i = 0; i < op.count; ++i) {
        const std::string line = task(program_.tasks[next_++]);
        if (lines_.empty() || line != "compute: pass" || lines_.back() != line) {
          lines_.push_back(line);
        }
      }
    } else if (op.kind == program::HostKind::sync) {
      lines_.push_back("host waits for " + stream(op.wait.stream));
    } else if (op.kind == program::HostKind::release) {
      lines_.push_back("- " + program_.labels[program_.buffers[op.buffer].label]);
    } else if (op.kind != program::HostKind::work) {
      lines_.push_back("+ " + sized(program_.buffers[op.buffer]));
    }
  }

  const program::World& world_;
  const program::Program& program_;
  std::size_t next_ = 0;  // index of the next task
  std::vector<std::string> lines_;
};

}  // namespace

Traced::Traced(const strategy::Plan& plan, std::size_t stage) {
  const program::World world = lower_small(plan, features_under_test());
  lines_ = Reader(world, world.programs[stage]).lines();
}

std::string Traced::of(const std::vector<std::string>& words) const {
  std::string out;
  for (const std::string& line : lines_) {
    const bool named = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return line.find(word) != std::string::npos;
    });
    out += named ? line + "\n" : "";
  }
  return out;
}

}  // namespace stepcast::lower::test
