#include "operator_cost.h"

#include <algorithm>
#include <cmath>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cost/site.h"

namespace stepcast::automatic {
namespace {

using cost::Collective;
using model::Operator;
using model::OpKind;

}  // namespace

OperatorCost::OperatorCost(const job::Job& job, const std::filesystem::path& data_directory)
    : job_(job), style_(model::style_of(job)) {
  const auto calibration = data_directory / "calibration";
  auto files = job.calibration;
  const auto site = cost::take_site(files, calibration);
  if (site && files == std::vector<std::string>{"auto"}) {
    files.clear();
  }
  mesh_ = std::make_unique<MeshCost>(job, calibration, files, curves_);
  kernels_ = std::make_unique<cost::Kernels>(job.cluster.device, job.kernels.library, calibration,
                                             files, curves_);
}

Bytes OperatorCost::capacity() const {
  const auto usable = [](const job::Device& d) {
    return d.usable_memory.count() > 0 ? d.usable_memory : d.memory;
  };
  Bytes out = usable(job_.cluster.device);
  for (const auto& o : job_.cluster.overrides) {
    out = std::min(out, usable(o.device));
  }
  return out;
}

OperatorCost::Timed OperatorCost::kernels(const Operator& op, const View& view,
                                          const Splits& splits) {
  double work = 1;
  for (std::size_t a = 0; a < 2; ++a) {
    work /= divides_work(splits[a]) ? view.ranks[a] : 1;
  }
  const auto cut = [&](auto which) {
    std::int64_t out = 1;
    for (std::size_t a = 0; a < 2; ++a) {
      out *= which(splits[a]) ? view.ranks[a] : 1;
    }
    return out;
  };
  const auto batch = [&] { return cut([](Split s) { return s == Split::batch; }); };
  const auto sequence = [&] { return cut([](Split s) { return s == Split::sequence; }); };
  const auto feature = [&] { return cut([](Split s) { return s == Split::feature; }); };
  const auto up = [](std::int64_t a, std::int64_t b) {
    return std::max<std::int64_t>(1, (a + b - 1) / b);
  };
  Timed out;
  if (op.gemm) {
    model::Gemm g = *op.gemm;
    g.n = up(g.n, cut([](Split s) { return s == Split::column || s == Split::column_gather; }));
    g.k = up(g.k, cut([](Split s) { return s == Split::row || s == Split::row_scatter; }));
    if (op.kind == OpKind::batched_gemm) {
      g.batch = up(g.batch, batch() * feature());
    } else {
      g.m = up(g.m, batch() * sequence());
      g.batch = up(g.batch, cut([](Split s) { return s == Split::expert; }));
    }
    const bool grouped = op.kind == OpKind::grouped_gemm;
    const auto type = op.kind == OpKind::batched_gemm ? style_.dtype : job_.workload.precision;
    const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k, cost::Layout layout) {
      const cost::GemmQuery query{.shape = {m, n, k, grouped ? 1 : g.batch},
                                  .dtype = type,
                                  .layout = layout,
                                  .operands_cast = true,
                                  .pace = cost::Pace::training};
      return to_seconds((grouped ? kernels_->grouped_gemm(query, static_cast<int>(g.batch))
                                 : kernels_->gemm(query))
                            .time);
    };
    out.forward = time(g.m, g.n, g.k, cost::Layout::forward);
    out.backward = time(g.m, g.k, g.n, cost::Layout::input_grad) +
                   time(g.k, g.n, g.m, cost::Layout::weight_grad);
  } else if (op.attention) {
    model::AttentionShape shape = *op.attention;
    shape.sequences = up(shape.sequences, batch());
    const auto heads = static_cast<int>(feature());
    shape.heads = std::max(1, shape.heads / heads);
    shape.kv_heads = std::max(1, shape.kv_heads / heads);
    shape.query_length = up(shape.query_length, sequence());
    cost::AttentionQuery query{
        .shape = shape, .kernel = style_.attention, .dtype = style_.dtype, .splash = style_.splash};
    out.forward = to_seconds(kernels_->attention(query).time);
    query.backward = true;
    out.backward = to_seconds(kernels_->attention(query).time);
  } else {
    const auto type = cost::memory_op(op.kind);
    const auto moved = [&](Bytes b) {
      return b.count() == 0
                 ? 0.0
                 : to_seconds(
                       kernels_->memory(type, bytes_of(work * static_cast<double>(b.count())))
                           .time);
    };
    out.forward = moved(op.forward_moved);
    out.backward = moved(op.backward_moved);
  }
  return out;
}

OperatorCost::Timed OperatorCost::inside(const Operator& op, const View& view,
                                         const Splits& splits) {
  Timed out;
  const double element = job::bytes_per_element(style_.dtype);
  const auto result = static_cast<double>(op.forward_output.count());
  const double input = op.gemm ? element * static_cast<double>(op.gemm->m) *
                                     static_cast<double>(op.gemm->k) *
                                     static_cast<double>(op.gemm->batch)
                               : result;
  const Cuts before = cuts_of(splits, input_of);
  const Cuts after = cuts_of(splits, output_of);
  for (std::size_t a = 0; a < 2; ++a) {
    const int axis = 1 << a;
    // The share of the whole along this axis that the other axis leaves to it.
    const double x = input * share_beside(view, before, a);
    const double y = result * share_beside(view, after, a);
    switch (splits[a]) {
      case Split::column:
        out.backward += mesh_->collective(view, axis, Collective::all_reduce, x);
        break;
      case Split::column_gather:  // the input is gathered again for the weight gradient
        out.forward += mesh_->collective(view, axis, Collective::all_gather, x);
        out.backward += mesh_->collective(view, axis, Collective::all_gather, x) +
                        mesh_->collective(view, axis, Collective::reduce_scatter, x);
        break;
      case Split::row:
        out.forward += mesh_->collective(view, axis, Collective::all_reduce, y);
        break;
      case Split::row_scatter:
        out.forward += mesh_->collective(view, axis, Collective::reduce_scatter, y);
        out.backward += mesh_->collective(view, axis, Collective::all_gather, y);
        break;
      case Split::sequence:
        // Keys and values of all tokens are gathered, and their gradients are summed.
        if (op.attention) {
          const model::AttentionShape& s = *op.attention;
          const double kv = element * static_cast<double>(s.sequences * s.key_length) *
                            static_cast<double>(s.kv_heads) *
                            static_cast<double>(s.qk_dim + s.v_dim) * share_beside(view, before, a);
          out.forward += mesh_->collective(view, axis, Collective::all_gather, kv);
          out.backward += mesh_->collective(view, axis, Collective::all_gather, kv) +
                          mesh_->collective(view, axis, Collective::reduce_scatter, kv);
        }
        break;
      case Split::feature:
        if (op.kind == OpKind::cross_entropy) {
          // The largest logit, the sum and the target of each token, in fp32 like the loss itself.
          out.forward += 3 * mesh_->collective(view, axis, Collective::all_reduce, y);
        }
        break;
      case Split::dispatch_batch:
      case Split::dispatch_sequence: {
        const double mine = y / view.ranks[a];
        out.forward += mesh_->collective(view, axis, Collective::all_to_all, mine);
        out.backward += mesh_->collective(view, axis, Collective::all_to_all, mine);
        break;
      }
      case Split::combine_batch:
      case Split::combine_sequence: {
        // All copies of a token return before they are summed.
        const double copies = job_.model.moe ? job_.model.moe->topk : 1;
        const double mine = copies * result * share_beside(view, before, a) / view.ranks[a];
        out.forward += mesh_->collective(view, axis, Collective::all_to_all, mine);
        out.backward += mesh_->collective(view, axis, Collective::all_to_all, mine);
        break;
      }
      case Split::replicate:
      case Split::batch:
      case Split::expert:
        break;
    }
  }
  return out;
}

double OperatorCost::gradient_sum(const View& view, const PricedOption& option,
                                  job::Sharding sharding, int micro_batches) {
  const double gradients = option.parameters * job::bytes_per_element(job_.memory.dtypes.reduce);
  const double parameters =
      option.parameters * job::bytes_per_element(job_.memory.dtypes.parameters);
  const int axes = option.sync_axes;
  switch (sharding) {
    case job::Sharding::none:
      return mesh_->collective(view, axes, Collective::all_reduce, gradients) / micro_batches;
    case job::Sharding::zero1:
    case job::Sharding::zero2:
      return (mesh_->collective(view, axes, Collective::reduce_scatter, gradients) +
              mesh_->collective(view, axes, Collective::all_gather, parameters)) /
             micro_batches;
    case job::Sharding::zero3:
      return mesh_->collective(view, axes, Collective::reduce_scatter, gradients) +
             2 * mesh_->collective(view, axes, Collective::all_gather, parameters);
  }
  return 0;
}

}  // namespace stepcast::automatic
