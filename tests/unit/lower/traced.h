// A small job of two layers, lowered, and what one stage's program does, line by line in the order
// in which the host issues it:
//
//   data: gradients reduce_scatter 4096 <- compute 7     a task of stream `data`, bytes of its
//                                                         collective or copy, and what it waits for
//   + gradients 4096 / - gradients                        a buffer is allocated, given up
//   = parameters 4096                                     a buffer that stands from step to step
//   host waits for compute
//
// Kernels of the passes between two such lines are one line, "compute: pass".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "muted.h"
#include "support/lowered.h"

namespace stepcast::lower::test {

struct Small {
  int layers = 2;
  bool tied = false;  // embeddings
};

class Traced {
 public:
  // `keys`: of the job, beside its model and cluster. `stage`: rank of the pipeline.
  explicit Traced(const std::string& keys, std::size_t stage = 0, const Small& model = {})
      : lowered_(job_of(keys, model), true, {}, features_under_test()),
        program_(lowered_.world.programs[stage]) {
    read();
  }

  // The lines that hold one of the words, one below the other.
  std::string of(const std::vector<std::string>& words) const {
    std::string out;
    for (const std::string& line : lines_) {
      const bool named = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return line.find(word) != std::string::npos;
      });
      out += named ? line + "\n" : "";
    }
    return out;
  }

 private:
  static std::string job_of(const std::string& keys, const Small& model) {
    return R"({"model": {"hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 32000, "layers": )" +
           std::to_string(model.layers) + R"(, "tied_embeddings": )" +
           (model.tied ? "true" : "false") + R"(}, "cluster": {"use": "dgx-h100", "nodes": 1}, )" +
           keys + "}";
  }

  std::string stream(program::StreamIndex index) const { return program_.streams[index].name; }

  std::string task(const program::Task& t) const {
    const bool in_pass = t.kind == program::TaskKind::kernel &&
                         t.category == program::Category::compute && t.micro_batch != 0xffff &&
                         t.communicator == 0 && t.stream == 0 &&
                         program_.labels[t.label].find("gradients") == std::string::npos;
    std::string line = stream(t.stream) + ": " + (in_pass ? "pass" : program_.labels[t.label]);
    if (t.kind == program::TaskKind::collective) {
      line += " " + std::to_string(lowered_.price(t).bytes);
    } else if (t.kind == program::TaskKind::copy) {
      line += " " +
              std::to_string(
                  lowered_.world.shapes[lowered_.world.ranks[0].copy_shape].prices[t.price].bytes);
    }
    for (std::uint32_t i = 0; i < t.waits; ++i) {
      const program::Wait& w = program_.waits[t.first_wait + i];
      line +=
          (i == 0 ? " <- " : ", ") + stream(w.stream) + (w.lag == 1 ? " of the step before" : "");
    }
    return line;
  }

  void read() {
    for (const program::Buffer& b : program_.buffers) {
      if (b.persistent) {
        lines_.push_back("= " + program_.labels[b.label] + " " + std::to_string(b.bytes.count()));
      }
    }
    std::size_t next = 0;
    for (const program::HostOp& op : program_.host) {
      if (op.kind == program::HostKind::launch) {
        for (std::uint32_t i = 0; i < op.count; ++i) {
          const std::string line = task(program_.tasks[next++]);
          if (lines_.empty() || line != "compute: pass" || lines_.back() != line) {
            lines_.push_back(line);
          }
        }
      } else if (op.kind == program::HostKind::sync) {
        lines_.push_back("host waits for " + stream(op.wait.stream));
      } else if (op.kind != program::HostKind::work) {
        const program::Buffer& b = program_.buffers[op.buffer];
        const std::string name = program_.labels[b.label];
        lines_.push_back(op.kind == program::HostKind::release
                             ? "- " + name
                             : "+ " + name + " " + std::to_string(b.bytes.count()));
      }
    }
  }

  support::Lowered lowered_;
  const program::Program& program_;
  std::vector<std::string> lines_;
};

}  // namespace stepcast::lower::test
