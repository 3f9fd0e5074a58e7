// Every algorithm with NCCL's own constants (tuning.cc) at the data sheet's rates.
#include <cmath>

#include "../cluster/clusters.h"
#include "catch.hpp"
#include "stepcast/cost/collectives.h"
#include "stepcast/job/nccl.h"
#include "support/no_files.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {

constexpr std::int64_t kGiB = 1 << 30;

job::Nccl algo(const std::string& text) {
  job::Nccl n;
  n.algo = text;
  return n;
}
job::Nccl version(const std::string& text, std::optional<std::string> algorithm = std::nullopt) {
  job::Nccl n;
  n.version = text;
  n.algo = std::move(algorithm);
  return n;
}

CollectivePrice price(const job::Cluster& c, const job::Nccl& nccl, Collective op,
                      std::int64_t bytes, const cluster::GroupShape& shape) {
  CurveTable curves;
  return Collectives(c, nccl, kNoFiles, {}, curves).price(op, Bytes(bytes), shape);
}
double micro(Time t) { return to_seconds(t) * 1e6; }

}  // namespace

TEST_CASE("CollNet and NVLS over SHARP") {
  auto c = hgx_h100(8);
  c.fabric.sharp = true;
  const auto all = built(c).shape(every(0, 1, 64));
  const auto op = Collective::all_reduce;
  CHECK(micro(price(c, algo("collnetdirect"), op, 8, all).latency) ==
        Approx(2 * (3.7 + 7 * 0.4) + 31));
  CHECK(micro(price(c, algo("collnetchain"), op, 8, all).latency) == Approx(2 * 7 * 2.8 + 30));
  CHECK(micro(price(c, algo("nvls"), op, 8, all).latency) == Approx(25 + 18));
  const double bus = 18 * 20.6e9;  // of NVLink, below 8 NICs' 400 GB/s
  CHECK(to_seconds(price(c, algo("collnetdirect"), op, kGiB, all).fluid) ==
        Approx(kGiB / (bus * 0.85 / 2)));
  CHECK(to_seconds(price(c, algo("collnetchain"), op, kGiB, all).fluid) ==
        Approx(kGiB / (bus / 2)));
  CHECK(to_seconds(price(c, algo("nvls"), op, kGiB, all).fluid) ==
        Approx(kGiB / (400e9 * 64 / (2 * 63.0))));
  // The hop latencies of NCCL 2.18.3.
  CHECK(micro(price(c, version("2.18.3", "collnetchain"), op, 8, all).latency) ==
        Approx(2 * 7 * 4.75 + 14));
  // It is not available if the network does not reduce, nor inside one node.
  c.fabric.sharp = false;
  CHECK(price(c, algo("collnetchain"), op, kGiB, built(c).shape(every(0, 1, 64))).algorithm !=
        Algorithm::collnet_chain);
  c.fabric.sharp = true;
  CHECK(price(c, algo("collnetchain"), op, kGiB, built(c).shape(every(0, 1, 8))).algorithm !=
        Algorithm::collnet_chain);
  // A mesh of links has no switch that could combine the heads.
  c.node.intra = job::Node::Intra::nvlink_mesh;
  CHECK(price(c, algo("collnetdirect"), op, kGiB, all).algorithm != Algorithm::collnet_direct);
  CHECK(price(c, algo("collnetchain"), op, kGiB, all).algorithm == Algorithm::collnet_chain);
}

TEST_CASE("NCCL's syntax is read as NCCL reads it") {
  const auto read = [](const std::string& text) {
    return job::parse_nccl_rules(text, job::nccl_algorithms());
  };
  const auto rules = std::get<job::NcclRules>(read("Ring, NVLS_Tree ;All_Reduce : ^tree,pat"));
  CHECK(rules.at("").names == std::vector<std::string>{"ring", "nvlstree"});
  CHECK_FALSE(rules.at("").excludes);
  CHECK(rules.at("allreduce").names == std::vector<std::string>{"tree", "pat"});
  CHECK(rules.at("allreduce").excludes);
  using What = job::NcclFault::What;
  const auto fault = [&](const std::string& text) { return std::get<job::NcclFault>(read(text)); };
  CHECK(fault("ring,tee").what == What::name);
  CHECK(fault("ring,tee").word == "tee");
  CHECK(fault("gather:ring").what == What::function);
  for (const std::string text : {"", "^", "ring,", ",ring", "allreduce:", "ring;"}) {
    INFO(text);
    CHECK(fault(text).what == What::empty);
  }
  CHECK(job::parse_nccl_version("2.18") == 218);
  CHECK(job::parse_nccl_version("2.23.4") == 223);
  for (const std::string text : {"", "2", "2.", ".18", "2.x", "2.18.3.1", "2.1000", "-2.18"}) {
    INFO(text);
    CHECK_FALSE(job::parse_nccl_version(text));
  }
}

TEST_CASE("PAT: by itself with one GPU a node, elsewhere when asked for") {
  const auto c = dgx_a100(64);
  const auto t = built(c);
  auto one_leaf = c;
  one_leaf.fabric.nodes_per_leaf = 64;
  const auto single = built(one_leaf).shape(every(0, 8, 64));
  const auto p = price(c, {}, Collective::all_gather, 64, single);
  CHECK(p.algorithm == Algorithm::pat);
  CHECK(micro(p.latency) == Approx(8 + 6 * 14 / 3.5 + 64 * 2.8));
  CHECK(price(c, version("2.23.4"), Collective::all_gather, 64, single).algorithm ==
        Algorithm::ring);
  const auto several = t.shape(every(0, 1, 64));
  CHECK(price(c, {}, Collective::all_gather, 64, several).algorithm == Algorithm::ring);
  CHECK(price(c, algo("pat"), Collective::all_gather, 64, several).algorithm == Algorithm::pat);
  CHECK(price(c, algo("pat"), Collective::all_reduce, 64, several).algorithm != Algorithm::pat);
}

TEST_CASE("NCCL_ALGO's lists, exclusions and functions") {
  const auto c = hgx_h100(4);
  const auto t = built(c);
  const auto one = t.shape(every(0, 1, 8));
  const auto all = t.shape(every(0, 1, 32));
  const auto chosen = [&](const std::string& text, Collective op, const cluster::GroupShape& g) {
    return std::string(to_string(price(c, algo(text), op, kGiB, g).algorithm));
  };
  CHECK(chosen("ring,tree", Collective::all_reduce, one) == "ring");
  CHECK(chosen("^nvls", Collective::all_reduce, one) == "ring");
  CHECK(chosen("^NVLS,Ring", Collective::all_reduce, one) == "tree");
  CHECK(chosen("allreduce:tree;allgather:ring", Collective::all_reduce, one) == "tree");
  CHECK(chosen("allreduce:tree;allgather:ring", Collective::all_gather, one) == "ring");
  CHECK(chosen("ring;allreduce:nvlstree", Collective::all_reduce, all) == "nvlstree");
  CHECK(chosen("ring;allreduce:nvlstree", Collective::reduce_scatter, one) == "ring");
  CHECK(chosen("ring", Collective::all_to_all, all) == "pairwise");
  CHECK(chosen("allreduce:ring", Collective::all_gather, one) != "tree");
  job::Nccl protocols;
  protocols.proto = "^simple,ll128";
  CHECK(price(c, protocols, Collective::all_gather, kGiB, all).protocol == Protocol::ll);
}

TEST_CASE("constants of older versions") {
  const auto c = hgx_h100(1);
  const auto one = built(c).shape(every(0, 1, 8));
  CHECK(micro(price(c, version("2.18.3", "nvls"), Collective::all_reduce, 8, one).latency) ==
        Approx(23));
  CHECK(price(c, version("2.18.3"), Collective::all_gather, kGiB, one).algorithm ==
        Algorithm::ring);
  const auto ll = [&](const std::string& v) {
    auto n = version(v, "ring");
    n.proto = "ll";
    return to_seconds(price(c, n, Collective::all_gather, kGiB, one).fluid);
  };
  CHECK(ll("2.30.7") == Approx(kGiB * 7 / 8.0 / 141e9));
  CHECK(ll("2.18") == Approx(kGiB * 7 / 8.0 / 87.7e9));
}

TEST_CASE("fewer channels than found carry less, and hold fewer SMs") {
  const auto c = dgx_a100(1);
  const auto one = built(c).shape(every(0, 1, 8));
  auto n = algo("ring");
  n.proto = "simple";
  const auto whole = price(c, n, Collective::all_gather, kGiB, one);
  n.max_ctas = 12;
  const auto half = price(c, n, Collective::all_gather, kGiB, one);
  CHECK(whole.sms == 24);
  CHECK(half.sms == 12);
  CHECK(to_seconds(half.fluid) / to_seconds(whole.fluid) == Approx(2));
  n.max_ctas.reset();
  n.min_ctas = 32;
  const auto more = price(c, n, Collective::all_gather, kGiB, one);
  CHECK(more.sms == 32);
  CHECK(more.fluid == whole.fluid);
}

TEST_CASE("two levels: phases one after the other, only by name") {
  const auto c = hgx_h100(8);
  const auto all = built(c).shape(every(0, 1, 64));
  const auto two = price(c, algo("hierarchical"), Collective::all_reduce, kGiB, all);
  CHECK(two.algorithm == Algorithm::hierarchical);
  const double inside = 2 * 7 / 8.0 / (18 * 20.6e9);
  const double across = 2 * 7 / 8.0 / 8 / 50e9;
  CHECK(to_seconds(two.fluid) == Approx(kGiB * (inside + across)));
  CHECK(two.nic.count() == Approx(2 * 7 / 8.0 * kGiB / 8).epsilon(1e-6));
  const auto exchange = price(c, algo("hierarchical"), Collective::all_to_all, 64, all);
  CHECK(exchange.algorithm == Algorithm::hierarchical);
  CHECK(micro(exchange.latency) == Approx(2 * 6.6 + 7 * 0.3 + 7 * 4));
  CHECK(micro(price(c, {}, Collective::all_to_all, 64, all).latency) ==
        Approx(6.6 + 7 * 0.3 + 56 * 4));
  CHECK(price(c, {}, Collective::all_to_all, kGiB, all).algorithm == Algorithm::pairwise);
}

TEST_CASE("chains fill hop by hop") {
  const auto c = dgx_a100(32);
  const auto t = built(c);
  auto n = algo("ring");
  n.proto = "simple";
  for (const auto op : {Collective::broadcast, Collective::reduce}) {
    for (const int nodes : {2, 4, 32}) {
      const auto p = price(c, n, op, kGiB, t.shape(every(0, 1, 8 * nodes)));
      const double chunk = 16 * 512 * 1024;  // 16 channels
      CHECK(to_seconds(p.fluid) == Approx((kGiB + (nodes - 2) * chunk) / 200e9));
      CHECK(micro(p.latency) == Approx(8.4 + 8 * nodes * 14));
    }
  }
}

TEST_CASE("gather and scatter are the root's own sends") {
  const auto c = hgx_h100(8);
  const auto all = built(c).shape(every(0, 1, 64));
  for (const auto op : {Collective::gather, Collective::scatter}) {
    const auto p = price(c, {}, op, kGiB, all);
    CHECK(p.algorithm == Algorithm::pairwise);
    CHECK(to_seconds(p.fluid) == Approx(kGiB * 56 / 64.0 / 50e9));
  }
}

TEST_CASE("a torus keeps all its rings busy; all-to-all is held by its bisection") {
  cluster::GroupShape g;
  g.ranks = g.ranks_per_domain = 64;
  g.domains = g.nodes = 1;
  g.torus = true;
  g.torus_dimensions = 3;
  g.nvlink = Bandwidth(300e9);  // six links of 50 GB/s
  auto c = dgx_a100(8);
  const auto reduce = price(c, {}, Collective::all_reduce, kGiB, g);
  CHECK(reduce.algorithm == Algorithm::torus);
  CHECK(reduce.sms == 0);
  CHECK(to_seconds(reduce.fluid) == Approx(2 * 63 / 64.0 * kGiB / 300e9));
  CHECK(micro(reduce.latency) == Approx(2 * 3 * 3));
  CHECK(to_seconds(price(c, {}, Collective::all_gather, kGiB, g).fluid) ==
        Approx(63 / 64.0 * kGiB / 300e9));
  // Side 4: 4 S / (8 * 50 GB/s).
  CHECK(to_seconds(price(c, {}, Collective::all_to_all, kGiB, g).fluid) ==
        Approx(4.0 * kGiB / (8 * 50e9)));
}

TEST_CASE("hashed routes slow a group by their mean and widen its interval") {
  auto c = dgx_a100(64);
  c.fabric.routing = job::Fabric::Routing::ecmp;
  CurveTable curves;
  auto n = algo("ring");
  n.proto = "simple";
  const Collectives with(c, n, kNoFiles, {}, curves);
  auto g = built(c).shape(every(0, 8, 16));
  g.hash = {};
  const auto free = with.price(Collective::all_reduce, Bytes(kGiB), g);
  g.hash = cluster::RouteHash({0.8, 0.6, 1});
  const auto hashed = with.price(Collective::all_reduce, Bytes(kGiB), g);
  CHECK(to_seconds(hashed.fluid) / to_seconds(free.fluid) == Approx(1 / 0.8));
  // 0.4 / (2 * 1.645 * 0.8) = 0.15 of the mean: the curve of 0.2.
  CHECK(curves.curves()[hashed.curve].residual ==
        Approx(std::hypot(curves.curves()[free.curve].residual, 0.2)));
  CHECK(curves.curves()[hashed.curve].name != curves.curves()[free.curve].name);
}
