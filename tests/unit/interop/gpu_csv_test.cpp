// Published tables of kernels: the records made from their rows, and what is refused.
#include "stepcast/interop/gpu_csv.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "support/folder.h"

using stepcast::test::Folder;
namespace {

using namespace stepcast;
using namespace stepcast::interop;
namespace fs = std::filesystem;

KernelTable read(const std::string& text) {
  const Folder folder;
  return read_kernel_csv(folder.write("table.csv", text));
}

std::vector<std::string> table_faults_of(const std::string& text) {
  std::vector<std::string> out;
  try {
    read(text);
  } catch (const InputError& error) {
    for (const Fault& f : error.faults()) {
      out.push_back(std::to_string(f.where.line) + " " + f.message);
    }
  }
  return out;
}

template <class Case>
const Case& as(const GpuMeasurement& m) {
  REQUIRE(std::holds_alternative<Case>(m.what));
  return std::get<Case>(m.what);
}

}  // namespace

TEST_CASE("A table of GEMMs, by library") {
  const auto t = read(
      "gpu,dtype,m,n,k,batch,time_us,tflops,kernel\n"
      "h100_sxm,bfloat16,8192,4096,2048,1,200,687,torch.nn.functional.linear\n"
      "h100_sxm,fp8,8192,4096,2048,2,110,1,CutlassFP8ScaledMMLinearKernel\n"
      "h100_sxm,fp8_block,64,32,16,1,3.5,1,torch_flow\n"
      "h100_sxm,fp6,64,32,16,1,3.5,1,torch_flow\n");
  CHECK(t.gpus == std::map<std::string, int>{{"h100_sxm", 2}});
  REQUIRE(t.measurements.size() == 3);
  const auto& cublas = t.measurements.at("cublas");
  REQUIRE(cublas.size() == 1);
  CHECK(as<GemmCase>(cublas[0]) ==
        GemmCase{job::DType::bf16, GemmLayout::forward, 8192, 4096, 2048});
  CHECK(cublas[0].time.median == Approx(200e-6));
  CHECK(cublas[0].line == 2);
  CHECK(as<GemmCase>(t.measurements.at("vllm")[0]).batch == 2);
  CHECK(as<GemmCase>(t.measurements.at("trtllm")[0]).dtype == job::DType::fp8_block);
  REQUIRE(t.left_out.size() == 1);
  CHECK(t.left_out[0].why == "the format fp6 is not modelled");
  CHECK(t.left_out[0].first_line == 5);
}

TEST_CASE("Layouts of a table") {
  const auto t = read(
      "gpu,dtype,m,n,k,batch,time_us,layout,accumulate,out_dtype\n"
      "b200,bf16,4096,1536,5120,1,262,TN,False,bf16\n"
      "b200,bf16,4096,5120,1536,1,280,NN,False,bf16\n"
      "b200,bf16,1536,5120,4096,1,331,NT,True,fp32\n"
      "b200,bf16,1536,5120,4096,1,331,NT,True,bf16\n");
  const auto& all = t.measurements.at("");
  REQUIRE(all.size() == 3);
  // The three passes of one layer of 5120 inputs and 1536 outputs.
  CHECK(as<GemmCase>(all[1]) ==
        GemmCase{job::DType::bf16, GemmLayout::input_grad, 4096, 5120, 1536});
  CHECK(as<GemmCase>(all[2]) ==
        GemmCase{job::DType::bf16, GemmLayout::weight_grad, 5120, 1536, 4096, 1, 1, true});
  REQUIRE(t.left_out.size() == 1);
  CHECK(t.left_out[0].why == "accumulation in 16 bit is not modelled");
}

TEST_CASE("A table of experts: two grouped GEMMs a row") {
  const auto t = read(
      "gpu,kernel,dtype,num_tokens,hidden,inter,topk,experts,tp,ep,distribution,time_us,tflops\n"
      "a100_sxm,vllm_fused_moe,bfloat16,4096,2048,768,8,128,2,1,balanced,900,1\n"
      "a100_sxm,vllm_fused_moe,bfloat16,4096,2048,768,8,128,2,4,balanced,300,1\n"
      "a100_sxm,vllm_fused_moe,bfloat16,4096,2048,768,8,128,2,4,power_law_1.2,990,1\n"
      "a100_sxm,vllm_fused_moe,bfloat16,8,2048,768,8,128,1,1,balanced,99,1\n");
  const auto& all = t.measurements.at("vllm");
  REQUIRE(all.size() == 2);
  CHECK(as<GemmCase>(all[0]) ==
        GemmCase{job::DType::bf16, GemmLayout::forward, 256, 768, 2048, 1, 128});
  CHECK(as<GemmCase>(all[1]) ==
        GemmCase{job::DType::bf16, GemmLayout::forward, 256, 2048, 384, 1, 128});
  CHECK(all[0].time.median + all[1].time.median == Approx(900e-6));
  CHECK(t.left_out.size() == 3);
}

TEST_CASE("Tables of attention") {
  const auto t = read(
      "gpu,kernel,dtype,kv_dtype,batch,seqlen,heads,kv_heads,head_dim,window,causal,time_us\n"
      "h100_sxm,vllm_flash_attn_fa3,bfloat16,bfloat16,2,12288,64,8,128,0,1,5424.5\n"
      "h100_sxm,vllm_flash_attn_fa3,bfloat16,fp8,2,12288,64,8,128,0,1,5424.5\n"
      "h100_sxm,vllm_flash_attn_fa3,bfloat16,bfloat16,2,12288,64,8,128,128,1,5424.5\n"
      "h100_sxm,vllm_flashinfer_trtllmdecode,bfloat16,bfloat16,2,12288,64,8,128,0,1,5424.5\n");
  const auto& all = t.measurements.at("");
  REQUIRE(all.size() == 1);
  const auto& c = as<AttentionCase>(all[0]);
  CHECK(c.kernel == "flash3");
  CHECK(c.kv_heads == 8);
  CHECK(!c.backward);
  CHECK(t.left_out.size() == 3);

  const auto rates = read(
      "gpu,kernel,dtype,batch,seqlen,heads,head_dim,causal,fwd_tflops,bwd_tflops,source\n"
      "h100,FA2,fp16,4,1024,2048/d,64,0,250,200,paper\n"
      "h100,FA2,fp16,4,1024,2048/d,64,1,250,,paper\n");
  const auto& rated = rates.measurements.at("");
  REQUIRE(rated.size() == 3);
  CHECK(as<AttentionCase>(rated[0]).heads == 32);
  const double flops = 4.0 * 4 * 32 * 1024 * 1024 * 64;
  CHECK(rated[0].time.median == Approx(flops / 250e12));
  CHECK(as<AttentionCase>(rated[1]).backward);
  CHECK(rated[1].time.median == Approx(2.5 * flops / 200e12));
  CHECK(rated[2].time.median == Approx(flops / 2 / 250e12));
}

TEST_CASE("Tables of memory-bound kernels") {
  const auto t = read(
      "gpu,op,dtype,rows,cols,bytes_moved,time_us,gb_per_s\n"
      "l4,ln,fp32,32768,1600,419430400,1813.8,231\n"
      "l4,addu,fp32,1,1,8192,2.5,3\n"
      "l4,gelu,fp32,1,1,8192,2.5,3\n"
      "l4,pow,fp32,1,1,8192,2.5,3\n");
  const auto& all = t.measurements.at("");
  REQUIRE(all.size() == 3);
  CHECK(as<MemoryCase>(all[0]) == MemoryCase{"norm", job::DType::fp32, 419430400, false});
  CHECK(as<MemoryCase>(all[1]).op == "add");
  CHECK(as<MemoryCase>(all[2]).op == "activation");
  CHECK(t.left_out[0].why == "the operator pow is not modelled");

  const auto vidur = read(
      "gpu,op,dtype,tokens,hidden,tp,time_us,model\n"
      "a100,input_layernorm,fp16,4096,8192,1,198,Qwen\n"
      "a100,add,fp16,4096,8192,1,130,Qwen\n"
      "a100,mlp_act,fp16,4096,8192,1,130,Qwen\n");
  const auto& sums = vidur.measurements.at("");
  REQUIRE(sums.size() == 1);
  CHECK(as<MemoryCase>(sums[0]).bytes == std::int64_t{3} * 2 * 4096 * 8192);
  REQUIRE(vidur.left_out.size() == 2);
  CHECK(vidur.left_out[1].why == "mlp_act: the table does not state its bytes");
}

TEST_CASE("Points as calibration/ keeps them are tables too") {
  CHECK(read("dtype,m,n,k,batch,time_us\nbf16,64,64,64,1,3\n").gpus.empty());
  const auto t =
      read("kernel,sequences,length,heads,kv_heads,head_dim,time_us\nflash3,1,512,2,1,64,17\n");
  CHECK(as<AttentionCase>(t.measurements.at("")[0]).causal);
  CHECK(as<MemoryCase>(read("op,bytes,time_us\nelementwise,512,17\n").measurements.at("")[0]).op ==
        "add");
}

TEST_CASE("What a table rests on stands beside it") {
  const Folder folder;
  folder.write("a.yaml", "source: \"somebody's repository @1234\"\nrows: 1\n");
  folder.write("b.yaml", "kind: gemm\ndevices: [h100-sxm]\nsource: a fit\n");
  const std::string text = "gpu,dtype,m,n,k,time_us\nh100,bf16,64,64,64,3\n";
  CHECK(read_kernel_csv(folder.write("a.csv", text)).source == "somebody's repository @1234");
  CHECK(read_kernel_csv(folder.write("b.csv", text)).source.empty());
  CHECK(read_kernel_csv(folder.write("c.csv", text)).source.empty());
}

TEST_CASE("Faults of tables") {
  const std::string head = "gpu,dtype,m,n,k,batch,time_us\n";
  const auto one = [&](const std::string& row) {
    const auto all = table_faults_of(head + row + "\n");
    REQUIRE(all.size() == 1);
    return all.front();
  };
  CHECK(one("h100,bf16,64,64,64,1,0") == "2 time_us is '0'; expected a positive number");
  CHECK(one("h100,bf16,64,64,64,1,nan") == "2 time_us is 'nan'; expected a positive number");
  CHECK(one("h100,bf16,64,64,64,1,inf") == "2 time_us is 'inf'; expected a positive number");
  CHECK(one("h100,bf16,64,64,64,1,-3") == "2 time_us is '-3'; expected a positive number");
  CHECK(one("h100,bf16,6.4,64,64,1,3") == "2 m is '6.4'; expected a whole number from 1");
  CHECK(one(",bf16,64,64,64,1,3") == "2 gpu is empty; expected its name");
  CHECK(table_faults_of(head) ==
        std::vector<std::string>{"1 there are no rows; expected one measurement each"});
  CHECK(table_faults_of("gpu,dtype,m,n,k\nh100,bf16,1,1,1\n") ==
        std::vector<std::string>{"1 column 'time_us' is missing; expected dtype, time_us"});
  REQUIRE(table_faults_of("a,b\n1,2\n").size() == 1);
  CHECK(table_faults_of("a,b\n1,2\n")[0].find("no table of kernels: the columns are a, b") !=
        std::string::npos);
  // All faulty rows are reported, up to a number that fits on a terminal.
  std::string rows = head;
  for (int i = 0; i < 5; ++i) {
    rows += "h100,bf16,0,64,64,1,3\n";
  }
  CHECK(table_faults_of(rows).size() == 5);
}
