// A handmade unit of a few operators in a plan of a few fields, used to test the features of its
// passes.
#pragma once

#include <string>
#include <vector>

#include "lower/passes/passes.h"
#include "stepcast/lower/lower.h"

namespace stepcast::test {

inline hardware::Device made_up_device() {
  hardware::Device device;
  device.name = "made-up";
  device.compute_capability = 9;
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16, DType::fp8}) {
    device.peak[type] = FlopRate(1e15);
  }
  device.memory = Bytes(std::int64_t{80} << 30);
  device.memory_bandwidth = Bandwidth(1e12);
  device.sms = 100;
  device.nvlink = Bandwidth(4e11);
  device.nvlink_generation = 4;
  device.pcie = Bandwidth(6e10);
  return device;
}

inline const cost::Kernels& made_up_kernels() {
  static cost::CurveTable curves;
  static const cost::Kernels kernels(made_up_device(), "", STEPCAST_SOURCE_DIR "/calibration", {},
                                     curves);
  return kernels;
}

struct SmallUnit {
  model::OperatorGraph graph;
  strategy::Plan plan;
  lower::Redone redone;
  lower::Labels labels = {};
  lower::PriceBook book = {};

  SmallUnit() {
    plan.model.hidden = 16;
    plan.shard.sequences = 2;
    plan.shard.sequence_length = 64;
    plan.accumulation.hands_on_gradients = false;
  }

  // Adds an operator after the last one, whose result it reads. Its result has 4096 bytes.
  model::Operator& add(const std::string& name, model::OpKind kind) {
    model::Operator op;
    op.name = name;
    op.kind = kind;
    op.forward_output = Bytes(4096);
    graph.operators.push_back(op);
    const int n = static_cast<int>(graph.operators.size());
    if (n > 1) {
      graph.edges.emplace_back(n - 2, n - 1);
    }
    return graph.operators.back();
  }

  // Adds a product of 128 rows that keeps its input.
  model::Operator& linear(const std::string& name, model::TensorRole role, std::int64_t n,
                          std::int64_t k) {
    model::Operator& op = add(name, model::OpKind::gemm);
    op.tensor = role;
    op.gemm = model::Gemm{128, n, k, 1};
    op.parameters = n * k;
    op.forward_output = Bytes(2 * 128 * n);
    op.saved.push_back(
        {"input", Bytes(2 * 128 * k), static_cast<std::uint32_t>(graph.operators.size())});
    return op;
  }

  lower::Passes build() {
    return lower::build_passes(graph, {&plan, &made_up_kernels(), &labels, &book}, redone);
  }

  // Items in order: kernels by their label, collectives that are waited for in [], other
  // collectives in (), steps of a ring in <>.
  std::string text(const std::vector<lower::Item>& items) const {
    using Kind = lower::Item::Kind;
    std::string out;
    for (const lower::Item& item : items) {
      const std::string label = item.label < labels.all().size() ? labels.all()[item.label] : "";
      out += out.empty() ? "" : ", ";
      switch (item.kind) {
        case Kind::kernel:
          out += label;
          break;
        case Kind::collective:
          out += "[" + label + "]";
          break;
        case Kind::async:
          out += "(" + label + ")";
          break;
        case Kind::ring:
          out += "<" + label + ">";
          break;
        case Kind::join:
          out += std::string("join ") + lower::group_name(item.role);
          break;
        case Kind::sync:
          out += "host waits";
          break;
        case Kind::host:
          out += "host works";
          break;
        case Kind::model:
          out += "behind the loss";
          break;
        case Kind::tile:
          out += "tile of " + std::to_string(item.elements);
          break;
      }
    }
    return out;
  }
  std::string forward() { return text(build().forward); }
  std::string backward() { return text(build().backward); }

  // Bytes of the tensors with this label.
  std::int64_t bytes(const lower::TensorList& list, const std::string& label) const {
    std::int64_t out = 0;
    for (const program::Block& block : list.blocks) {
      out += labels.all()[block.label] == label ? block.bytes.count() : 0;
    }
    return out;
  }
};

}  // namespace stepcast::test
