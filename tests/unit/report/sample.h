// A small handmade report: two stages, one of them over capacity, and every field with a distinct
// value.
#pragma once

#include <string>

#include "stepcast/report/report.h"

namespace stepcast::sample {

inline Time ps(std::int64_t count) { return Time(count); }
inline Time ms(std::int64_t count) { return Time(count * 1'000'000'000); }
inline Bytes gib(double count) { return Bytes(static_cast<std::int64_t>(count * (1 << 30))); }

inline result::Report report() {
  result::Report r;
  r.title = "llama-3-8b on 2 x dgx-h100";
  r.job_json = R"({
  "model": "llama-3-8b",
  "cluster": {"nodes": 2},
  "system": {"name": "megatron-lm"},
  "workload": {"sequence_length": 8192, "global_batch": 128, "micro_batch": 1, "precision": "bf16"},
  "parallelism": {"tensor": 4, "pipeline": 2, "virtual_pipeline": 3, "context": {"size": 1}, "expert": 1,
                  "data": "auto", "sharding": "zero1"},
  "memory": {"recompute": {"every": 2}}
}
)";
  r.step_time = {1.000000000003, 0.95, 1.06};
  r.tokens = 129976;  // 8123.5 tokens/s on each of 16 GPUs for 1 s
  r.tokens_per_second_per_gpu = {8123.5, 7700, 8500};
  r.model_flops_per_gpu = {4.125e14, 3.9e14, 4.3e14};
  r.mfu = {0.417, 0.395, 0.435};
  r.hfu = {0.43, 0.41, 0.45};
  r.bubble_fraction = 0.06;
  result::StageBreakdown first;
  first.stage = 0;
  first.compute = ms(700);
  first.recompute = ms(20);
  first.slowdown = ms(10);
  first.tensor = ms(90);
  first.pipeline = ms(15);
  first.data = ms(25);
  first.context = ms(4);
  first.expert = ms(3);
  first.offload = ms(2);
  first.other = ms(1);
  first.bubble = ms(60);
  first.host = ms(20);
  first.optimizer = ms(30);
  first.stall = ms(20) + ps(3);
  result::StageBreakdown second;
  second.stage = 1;
  second.compute = ms(800);
  second.tensor = ms(100);
  second.bubble = ms(70);
  second.optimizer = ms(30) + ps(3);
  r.breakdown = {first, second};
  r.capacity = gib(79.1);
  r.fits = {false, 0.03125, gib(79.1) - gib(83.1)};
  r.peak = {static_cast<double>(gib(83.1).count()), static_cast<double>(gib(80).count()),
            static_cast<double>(gib(86).count())};
  result::StageMemory m;
  m.stage = 0;
  m.parameters = gib(16);
  m.gradients = gib(16);
  m.optimizer = gib(24);
  m.activations = gib(20);
  m.communication = gib(1);
  m.workspace = gib(0.5);
  m.other = gib(0.5);
  m.allocated = gib(78);
  m.active = gib(78.5);
  m.reserved = gib(80);
  m.process = gib(83.1);
  m.steady = gib(57);
  m.first_step_peak = gib(77);
  m.at = ms(600) + ps(7);
  r.memory.push_back(m);
  m.stage = 1;
  m.activations = gib(5);
  m.allocated = gib(63);
  m.active = gib(63);
  m.reserved = gib(64);
  m.process = gib(67.1);
  r.memory.push_back(m);
  r.traffic = {{"data", "reduce_scatter ring simple", 4, gib(7.5), ms(80)},
               {"tensor", "all_gather nvls simple", 1280, gib(20), ms(60)},
               {"tensor", "reduce_scatter nvls simple", 1280, gib(20), ms(70)}};
  r.calibration = {
      {"calibration/h100-sxm/gemm.yaml", "h100-sxm", "published cuBLAS log, 2024", 0.031}};
  r.advice = {{"memory.recompute=full", gib(60), ms(1300), {true, 0.96, gib(19.1)}}};
  r.notes = {"The fabric's oversubscription is not given: 1 is assumed."};
  r.engine = {"folded", 16, 2, 1234, 5678, 2, true};
  return r;
}

// Two stages that exchange: stage 0 computes and sends, stage 1 posts its receive early, waits and
// computes; both reduce.
inline result::Report::Trace trace() {
  using namespace program;
  result::Report::Trace t;
  World& w = t.world;
  for (int stage = 0; stage < 2; ++stage) {
    Program p;
    p.stage = stage;
    p.streams = {{"compute"}, {"pipeline"}};
    p.labels = {"forward", stage == 0 ? "send" : "receive", "grad all_reduce"};
    Task kernel;
    kernel.label = 0;
    kernel.micro_batch = 5;
    kernel.chunk = 1;
    Task exchange;
    exchange.kind = TaskKind::exchange;
    exchange.category = Category::pipeline;
    exchange.wait_category = Category::bubble;
    exchange.label = 1;
    exchange.stream = 1;
    exchange.transfers = 1;
    Task collective;
    collective.kind = TaskKind::collective;
    collective.category = Category::data;
    collective.label = 2;
    p.tasks = {kernel, exchange, collective};
    p.transfers = {{0, 9, 0, stage == 0}};
    p.buffers.resize(2);
    p.buffers[0].bytes = Bytes(1000);
    p.buffers[1].bytes = Bytes(300);
    w.programs.push_back(p);
    program::Rank rank;
    rank.program = program::ProgramId::at(stage);
    rank.first_channel = static_cast<std::uint32_t>(stage);
    w.ranks.push_back(rank);
  }
  w.channel_table = {0, 0};
  Channel channel;
  channel.sender = 0;
  channel.receiver = 1;
  w.channels = {channel};
  w.communicator_table = {0};
  Communicator communicator;
  communicator.size = 8;
  w.communicators = {communicator};
  Price price;
  price.bytes = Bytes(4096);
  w.shapes = {{{price}}};
  w.multiplicity = {8, 8};
  Timeline& line = t.timeline;
  using namespace literals;
  line.period = 10'000'000_ps;
  // arrive, begin, end, task, rank (picoseconds). Out of order on purpose.
  line.slices = {{4'000'000_ps, 4'000'000_ps, 6'000'000_ps, 1, 0},
                 {-500_ps, -500_ps, 4'000'000_ps, 0, 0},
                 {1'000'000_ps, 4'000'000_ps, 6'000'000_ps, 1, 1},
                 {6'000'000_ps, 6'000'000_ps, 9'000'000_ps, 0, 1},
                 {6'000'000_ps, 9'000'000_ps, 9'500'000_ps, 2, 0},
                 {9'000'000_ps, 9'000'000_ps, 9'500'000_ps, 2, 1}};
  line.memory.resize(2);
  line.memory[0] = {{100'000_ps, 100'000_ps, 0, true},
                    {200'000_ps, 200'000_ps, 1, true},
                    {5'000'000_ps, 5'000'000_ps, 0, false},
                    {6'000'000_ps, 6'000'000_ps, 1, false}};
  line.ranks.resize(2);
  line.ranks[0].steady = Bytes(50);
  return t;
}

}  // namespace stepcast::sample
