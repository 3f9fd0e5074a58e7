// A program file is read whole or refused with its line.
#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/capture/capture.h"

using namespace stepcast;

namespace {

const char* const kHead =
    R"({"format":"stepcast-program","version":1,"world_size":8,"command":"torchrun t.py","torch":"2","host":"cpu"})";

std::string rank_line(const std::string& tasks, int rank = 0) {
  return R"({"rank":)" + std::to_string(rank) +
         R"(,"streams":["compute","nccl"],"groups":[{"name":"world","ranks":[0,1,2,3,4,5,6,7]}],)"
         R"("operators":[{"name":"aten.mm","type":"bfloat16","gemm":[1,64,32,16],"order":"nt"},{"name":"aten.add","type":"float32","bytes":96}],)"
         R"("memory":{"peak":1000,"reserved":2000,"parameters":10},"tasks":)" +
         tasks + "}";
}

capture::Capture read_text(const std::string& text) {
  const std::string file = "capture-read-test.jsonl";
  std::ofstream(file) << text;
  return capture::read(file);
}

std::string fault_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 1);
    return to_string(error.faults().front());
  }
  return "";
}

std::string with(const std::string& tasks) {
  return std::string(kHead) + "\n" + rank_line(tasks) + "\n";
}

}  // namespace

TEST_CASE("capture: tasks are read with their waits, shapes and groups") {
  const capture::Capture c = read_text(with(
      R"([["kernel",0,500,[],0,1,2],["collective",1,10,[[0,1,0]],0,"all_gather",4096],["sync",7,[[1,1,0]]],["kernel",0,0,[[1,1,1]],-1,3,1],)"
      R"(["exchange",1,1,[],0,[[1,1,64],[7,0,64]]],["copy",0,2,[],"to_host",8],["host",9]])"));
  REQUIRE(c.ranks.size() == 1);
  const auto& tasks = c.ranks[0].tasks;
  REQUIRE(tasks.size() == 7);
  CHECK(tasks[0].phase == capture::Phase::backward);
  CHECK(tasks[0].launches == 2);
  CHECK(tasks[1].operation == "all_gather");
  CHECK(tasks[1].waits.at(0).position == 1);
  CHECK(tasks[3].operator_number == -1);
  CHECK(tasks[3].waits.at(0).lag == 1);
  CHECK(tasks[4].messages.at(1).peer == 7);
  CHECK_FALSE(tasks[5].to_device);
  CHECK(tasks[6].host == 9);
  CHECK(c.ranks[0].operators[0].product->b_transposed);
  CHECK_FALSE(c.ranks[0].operators[0].product->a_transposed);
  CHECK(c.ranks[0].operators[1].bytes == 96);
}

TEST_CASE(
    "capture: another version, format and what does not hold together are refused at their line") {
  CHECK_THAT(fault_of(R"({"format":"stepcast-program","version":2,"world_size":8})"),
             ContainsSubstring("1:40: error: version 2 of the format; expected 1"));
  CHECK_THAT(fault_of(R"({"a":1})"), ContainsSubstring("is no program file"));
  CHECK_THAT(fault_of(std::string(kHead) + "\n"), ContainsSubstring("does not hold rank 0"));
  CHECK_THAT(fault_of(""), ContainsSubstring("is empty"));
  CHECK_THAT(fault_of(with(R"([["kernel",2,0,[],0,0,1]])")),
             ContainsSubstring("stream is 2; expected 0 to 1"));
  CHECK_THAT(fault_of(with(R"([["kernel",0,0,[],2,0,1]])")),
             ContainsSubstring("operator is 2; expected -1 to 1"));
  CHECK_THAT(fault_of(with(R"([["kernel",0,0,[[1,1,0]],0,0,1]])")),
             ContainsSubstring("waits for task 1 of stream 1, which has 0"));
  CHECK_THAT(fault_of(with(R"([["kernel",0,0,[],0,0,1,5]])")),
             ContainsSubstring("a member too many"));
  CHECK_THAT(fault_of(with(R"([["kernel",0]])")), ContainsSubstring("expected more"));
  CHECK_THAT(fault_of(with(R"([["jump",0,0,[]]])")),
             ContainsSubstring("unknown kind of task 'jump'"));
  CHECK_THAT(fault_of(with(R"([["collective",1,-5,[],0,"all_gather",1]])")),
             ContainsSubstring("host time is -5"));
  CHECK_THAT(fault_of(with("[]") + rank_line("[]") + "\n"),
             ContainsSubstring("ranks are not in order"));
}

TEST_CASE(
    "capture: a rank that was not recorded runs the program of the last recorded one below it") {
  const capture::Capture c =
      read_text(std::string(kHead) + "\n" + rank_line("[]") + "\n" + rank_line("[]", 4) + "\n");
  CHECK(capture::recorded_for(c, 0) == 0);
  CHECK(capture::recorded_for(c, 3) == 0);
  CHECK(capture::recorded_for(c, 4) == 1);
  CHECK(capture::recorded_for(c, 7) == 1);
}

TEST_CASE("capture: a compressed file is read, with the times of its host") {
  const capture::Capture c =
      capture::read(STEPCAST_SOURCE_DIR "/tests/capture/recorded/fsdp2.jsonl.gz");
  CHECK(c.world_size == 8);
  CHECK_FALSE(c.host_scale);
  std::int64_t all = 0;
  for (const auto& task : c.ranks[0].tasks) {
    all += task.host;
  }
  CHECK(all > 0);
}

TEST_CASE("capture: attention says which kernel runs, FlashAttention-2 where it is left out") {
  const auto with_attention = [](const std::string& rest) {
    std::string out = with("[]");
    const std::string add = R"({"name":"aten.add","type":"float32","bytes":96})";
    return out.replace(out.find(add), add.size(),
                       R"({"name":"aten._scaled_dot_product_flash_attention","type":"bfloat16",)"
                       R"("attention":[2,16,8,512,1024,128,64,1],"backward":1)" +
                           rest + "}");
  };
  const auto read_one = [&](const std::string& rest) {
    return *read_text(with_attention(rest)).ranks[0].operators[1].attention;
  };
  const capture::Attention plain = read_one("");
  CHECK(plain.kernel == AttentionKernel::flash2);
  CHECK(plain.kv_heads == 8);
  CHECK(plain.key_length == 1024);
  CHECK(plain.v_dim == 64);
  CHECK(plain.causal);
  CHECK(plain.backward);
  CHECK(read_one(R"(,"kernel":"cudnn")").kernel == AttentionKernel::cudnn);
  CHECK(read_one(R"(,"kernel":"efficient")").kernel == AttentionKernel::efficient);
  CHECK_THAT(fault_of(with_attention(R"(,"kernel":"math")")),
             ContainsSubstring("kernel is 'math'; expected efficient, flash1"));
}

TEST_CASE("capture: routed rows are read, and refused where they cannot be") {
  const std::string text = with("[]");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = text;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  const std::string group = R"("ranks":[0,1,2,3,4,5,6,7])";
  const capture::Capture c = read_text(changed(group, group + R"(,"routed":[64,1024])"));
  REQUIRE(c.ranks.at(0).groups.at(0).routed);
  CHECK(c.ranks[0].groups[0].routed->experts == 64);
  CHECK(c.ranks[0].groups[0].routed->rows == 1024);
  CHECK(c.ranks[0].operators.at(0).routed == capture::Routed::none);
  CHECK(fault_of(changed(group, group + R"(,"routed":[12,1024])"))
            .find("12 experts of 8 ranks; expected a multiple") != std::string::npos);
  const std::string order = R"("order":"nt")";
  CHECK(read_text(changed(order, order + R"(,"routed":"sum")")).ranks[0].operators[0].routed ==
        capture::Routed::sum);
  CHECK(fault_of(changed(order, order + R"(,"routed":"some")"))
            .find("routed is 'some'; expected rows or sum") != std::string::npos);
}
