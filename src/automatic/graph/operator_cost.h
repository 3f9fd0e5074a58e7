// Prices operators that are split over a mesh: their kernels and the collectives inside them.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "graph_model.h"
#include "mesh_cost.h"
#include "stepcast/cost/kernels.h"

namespace stepcast::automatic {

struct PricedOption {
  Splits splits{};
  double forward = 0;  // seconds per micro-batch, with collectives
  double backward = 0;
  double parameters = 0;       // elements on each rank
  int sync_ranks = 1;          // number of ranks that sum its gradients
  int sync_axes = 0;           // bit k is set if these ranks span axis k
  double saved = 0;            // bytes kept from the forward to the backward pass
  double kernels_forward = 0;  // part of `forward` without collectives
  double kernels_backward = 0;
  std::array<RoleSet, 2> roles{};  // the roles that each axis may have
};

struct PricedOperator {
  std::string name;
  model::OpKind kind = model::OpKind::elementwise;
  bool core = false;  // core attention, which selective recomputation runs again
  double flops = 0;
  double parameters = 0;
  double transient = 0;  // bytes over all ranks that live only while the operator runs
  std::vector<PricedOption> options;
};

struct PricedEdge {
  int from = -1;  // -1: the stream that enters the graph
  int to = 0;
  bool other_input = false;
  double bytes = 0;
};

struct PricedGraph {
  std::vector<PricedOperator> operators;
  std::vector<PricedEdge> edges;
  // The possible cuts of the stream that enters the graph, with the share of it that a rank holds.
  struct Stream {
    Splits splits{};
    double share = 1;
    std::array<RoleSet, 2> roles{};
  };
  std::vector<Stream> streams;
  double stream_bytes = 0;
};

class OperatorCost {
 public:
  OperatorCost(const job::Job& job, const std::filesystem::path& data_directory);

  PricedGraph price(const model::OperatorGraph& graph, const View& view, std::int64_t samples,
                    const Allowed& allowed);
  MeshCost& mesh() { return *mesh_; }
  // Seconds per micro-batch to sum an operator's gradients and to gather its sharded parameters.
  double gradient_sum(const View& view, const PricedOption& option, job::Sharding sharding,
                      int micro_batches);
  Bytes capacity() const;  // of the smallest device

 private:
  struct Timed {
    double forward = 0, backward = 0;
  };
  Timed kernels(const model::Operator& op, const View& view, const Splits& splits);
  Timed inside(const model::Operator& op, const View& view, const Splits& splits);

  job::Job job_;
  model::Style style_;
  cost::CurveTable curves_;
  std::unique_ptr<MeshCost> mesh_;
  std::unique_ptr<cost::Kernels> kernels_;
};

}  // namespace stepcast::automatic
