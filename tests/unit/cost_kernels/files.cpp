// Calibration files and measured points: what is refused, with the number of the faulty line.
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "cost/calibration_file.h"
#include "cost/calibration_write.h"
#include "cost/nccl_match.h"
#include "cost/points.h"
#include "devices.h"
#include "stepcast/cost/calibration_list.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {
std::filesystem::path written(const std::string& name, const std::string& content) {
  const auto folder = std::filesystem::temp_directory_path() / "stepcast-cost-kernels";
  std::filesystem::create_directories(folder);
  const auto file = folder / name;
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

const std::string kGood = R"(kind: gemm
devices: [toy]
library: cublas
source: "a test"
curves:
  bf16:
    law: {sms: 4, fixed: 1e-06, rate: 1e+12, bandwidth: 1e+11, prologue: 10, tile: 8, tail: 0.5}
    sustained: {burst: 1e+12, long_run: 9e+11, deviation: 0.02, source: "a test"}
    residual: 0.05
    grid: {m: {first: 6, step: 1, nodes: 2}, n: {first: 8, step: 1, nodes: 2}, k: {first: 8, step: 1, nodes: 2}}
    correction: |
      0 1 2 3
      4 5 6 7
)";

std::string changed(const std::string& from, const std::string& to) {
  std::string s = kGood;
  const auto at = s.find(from);
  REQUIRE(at != std::string::npos);
  return s.replace(at, from.size(), to);
}

std::string fault_of(const std::string& content) {
  static int count = 0;
  const auto file = written("bad-" + std::to_string(++count) + ".yaml", content);
  try {
    (void)read_calibration(file);
  } catch (const InputError& e) {
    return to_string(e.faults().front());
  }
  return "accepted";
}

template <class Read>
std::string points_fault(const std::string& content, Read read) {
  static int count = 0;
  const auto file = written("points-" + std::to_string(++count) + ".csv", content);
  try {
    (void)read(file);
  } catch (const InputError& e) {
    std::string all;
    for (const auto& f : e.faults()) {
      all += to_string(f) + "\n";
    }
    return all;
  }
  return "accepted";
}
}  // namespace

TEST_CASE("a good file is read as written") {
  const auto file = read_calibration(written("good.yaml", kGood));
  CHECK(file->kind == CalibrationFile::Kind::gemm);
  CHECK(file->library == "cublas");
  const GemmCurve& c = file->gemm.at(job::DType::bf16);
  CHECK(c.law.sms == 4);
  CHECK(c.law.grid.at(128, 512, 512) == Approx(0.007));
  CHECK(c.cap == Approx(power_cap(1e12, 9e11)));
}

TEST_CASE("faulty calibration files name the place and the reason") {
  CHECK_THAT(fault_of(changed("residual", "residuals")),
             ContainsSubstring(":9:5: error: unknown key 'residuals' (did you mean 'residual'?)"));
  CHECK_THAT(fault_of(changed("rate: 1e+12", "rate: .nan")), ContainsSubstring(":7:"));
  CHECK_THAT(fault_of(changed("rate: 1e+12", "rate: -5")), ContainsSubstring("rate is -5"));
  CHECK_THAT(fault_of(changed("rate: 1e+12, ", "")), ContainsSubstring("key 'rate' is missing"));
  CHECK_THAT(fault_of(changed("tail: 0.5", "tail: 1.5")), ContainsSubstring("tail is 1.5"));
  CHECK_THAT(fault_of(changed("      4 5 6 7\n", "")),
             ContainsSubstring("the correction has 4 values; its grid has 8 nodes"));
  CHECK_THAT(fault_of(changed("4 5 6 7", "4 5 x 7")),
             ContainsSubstring("value 7 of the correction"));
  CHECK_THAT(fault_of(changed("4 5 6 7", "4 5 6 99999")), ContainsSubstring("within 5000"));
  CHECK_THAT(fault_of(changed("bf16:", "bf17:")), ContainsSubstring("'bf17' is not a known dtype"));
  CHECK_THAT(fault_of(changed("long_run: 9e+11", "long_run: 2e+12")),
             ContainsSubstring("long_run is 2000000000000: expected"));
  const auto grouped = [](const std::string& rows) {
    return fault_of(
        changed("    residual: 0.05",
                "    grouped: {rows: {" + rows + "}, source: \"a test\"}\n    residual: 0.05"));
  };
  CHECK(grouped("512: 1.1, 1024: 1") == "accepted");
  CHECK_THAT(grouped("512: 1.1, 2048: 1"), ContainsSubstring("2048 rows"));
  CHECK_THAT(grouped("500: 1.1"), ContainsSubstring("consecutive powers of two"));
  CHECK_THAT(grouped("512: 100"), ContainsSubstring("512 is 100"));
  CHECK_THAT(fault_of(changed("devices: [toy]", "devices: toy")),
             ContainsSubstring(":2:10: error: expected a list of device names"));
  CHECK_THAT(fault_of(kGood.substr(0, kGood.find("    law:"))), ContainsSubstring("error"));
  CHECK_THAT(fault_of(std::string("\x00\x01\xff\xfe binary", 12)), ContainsSubstring("error"));
  CHECK_THAT(fault_of("- a\n- b\n"), ContainsSubstring("expected a calibration file"));
  CHECK_THROWS_AS(read_calibration("/nonexistent/none.yaml"), InputError);
}

TEST_CASE("a file that a job names must be of the job's device") {
  const auto good = written("named.yaml", kGood);
  CHECK(find_calibration("/nonexistent", "toy", {good.string()}).size() == 1);
  try {
    (void)find_calibration("/nonexistent", "h100-sxm", {good.string()});
    FAIL("accepted");
  } catch (const InputError& e) {
    CHECK_THAT(to_string(e.faults().front()),
               ContainsSubstring("the file is of toy, not of device 'h100-sxm'"));
  }
  CHECK_THROWS_AS(find_calibration("/nonexistent", "toy", {"none.yaml"}), InputError);
  CHECK(find_calibration("/nonexistent", "toy", {}).empty());
}

TEST_CASE("a file that changed is read anew") {
  const auto file = written("changing.yaml", kGood);
  CHECK(read_calibration(file)->gemm.at(job::DType::bf16).law.sms == 4);
  std::ofstream(file) << changed("sms: 4", "sms: 8");
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(2));
  CHECK(read_calibration(file)->gemm.at(job::DType::bf16).law.sms == 8);
}

TEST_CASE("what is written is read back the same") {
  AttentionCurve curve;
  curve.rate = {{64, 1e14}, {128, 2e14}};
  curve.residual = 0.07;
  MemoryCurve memory;
  memory.share = 0.5;
  memory.backward_pass = MemoryPass{};
  memory.backward_pass->share = 0.25;
  curve.burst = 4e14;
  curve.training = 3e14;
  const auto attention = read_calibration(
      written("attention.yaml", head_text({"attention", {"toy", "toy-2"}, "any", "a test"}) +
                                    attention_text("flash2", curve, {}, "a test")));
  CHECK(attention->devices.size() == 2);
  CHECK(attention->attention.at(job::AttentionKernel::flash2).rate == curve.rate);
  const auto ops =
      read_calibration(written("memory.yaml", head_text({"memory", {"toy"}, "any", "a test"}) +
                                                  memory_text("norm", memory, "a test")));
  CHECK(ops->memory.at(MemoryOp::norm).share == 0.5);
  CHECK(ops->memory.at(MemoryOp::norm).backward_pass->share == 0.25);
  const AttentionCurve& read = attention->attention.at(job::AttentionKernel::flash2);
  CHECK(read.training_cap == Approx(power_cap(4e14, 3e14)));
}

TEST_CASE("every committed calibration file of kernels reads, and names its source") {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kCalibration)) {
    const auto name = entry.path().filename().string();
    if (entry.path().extension() == ".yaml" &&
        (name.starts_with("gemm-") || name == "attention.yaml" || name == "memory.yaml" ||
         name == "copy.yaml")) {
      const auto file = read_calibration(entry.path());
      CHECK(file->kind != CalibrationFile::Kind::other);
      CHECK(file->source.size() > 20);
      ++files;
    }
  }
  CHECK(files >= 32);
}

TEST_CASE("faulty points name every row at fault") {
  const std::string head = "dtype,m,n,k,batch,time_us\n";
  const std::string row = "bf16,128,256,512,1,10\n";
  CHECK(points_fault(head + row, read_gemm_points) == "accepted");
  CHECK(points_fault(head + row + row, read_gemm_points) == "accepted");
  CHECK_THAT(
      points_fault(head + row + "bf16,128,256,512,1,25\n", read_gemm_points),
      ContainsSubstring(":3:0: error: the shape has 10 us in an earlier row and 25 us here"));
  const auto several =
      points_fault(head + "bf16,128,256,512,1,0\n" + row + "bf16,128,256,512,1,nan\n" +
                       "bf16,128,-1,512,1,3\nbf16,128,256,5x,1,3\n",
                   read_gemm_points);
  for (const char* line : {":2:0", ":4:0", ":5:0", ":6:0"}) {
    CHECK_THAT(several, ContainsSubstring(line));
  }
  CHECK_THAT(points_fault("dtype,m,n,k,time_us\nbf16,1,1,1,1\n", read_gemm_points),
             ContainsSubstring("column 'batch' is missing"));
  CHECK_THAT(points_fault(head + "bf16,128,256\n", read_gemm_points), ContainsSubstring(":2:"));
  CHECK_THAT(points_fault("op,bytes,time_us\nnorm,100,inf\n", read_memory_points),
             ContainsSubstring("'inf' is not a positive number"));
  CHECK_THAT(points_fault(
                 "kernel,sequences,length,heads,kv_heads,head_dim,time_us\nflash2,1,512,0,1,64,9\n",
                 [](const auto& f) { return read_attention_points(f, 1); }),
             ContainsSubstring("'0' is not a positive number"));
}

namespace {

// A file of the test device whose fixed time reveals the file that a price came from.
std::string gemm_file(const std::string& device, const std::string& dtype, double fixed) {
  GemmCurve c;
  c.law.sms = 4;
  c.law.fixed = fixed;
  c.law.rate = 1e14;
  c.law.bandwidth = 1e12;
  c.burst = c.long_run = 1e14;
  return head_text({"gemm", {device}, "cublas", "a test"}) + gemm_text(dtype, c, {}, {});
}

struct Folders {
  std::filesystem::path committed, own;
};

// Committed: bf16 and fp16 of h100-sxm. Own: bf16 of h100-sxm, a file of another device, and a file
// that is no calibration.
Folders two_folders() {
  const auto base = std::filesystem::temp_directory_path() / "stepcast-calibration-auto";
  std::filesystem::remove_all(base);
  const Folders f{base / "committed", base / "own"};
  std::filesystem::create_directories(f.committed / "h100-sxm");
  std::filesystem::create_directories(f.own);
  std::ofstream(f.committed / "h100-sxm" / "gemm-cublas.yaml")
      << gemm_file("h100-sxm", "bf16", 1e-3) + "  fp16:" +
             gemm_file("h100-sxm", "bf16", 2e-3)
                 .substr(gemm_file("h100-sxm", "bf16", 2e-3).find("  bf16:") + 7);
  std::ofstream(f.own / "gemm.yaml") << gemm_file("h100-sxm", "bf16", 3e-3);
  std::ofstream(f.own / "other.yaml") << gemm_file("toy", "bf16", 4e-3);
  std::ofstream(f.own / "job.yaml") << "workload: {micro_batch: 1}\n";
  return f;
}

// Milliseconds of a product so small that only the fixed time counts.
double fixed_of(const Folders& f, const std::vector<std::string>& given, job::DType dtype) {
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", f.committed, given, curves);
  return to_seconds(kernels.gemm({{1, 64, 64, 1}, dtype, Layout::forward}).time) * 1e3;
}

}  // namespace

TEST_CASE("a list restricts; with auto it only comes first") {
  const Folders f = two_folders();
  const std::string own = (f.own / "gemm.yaml").string();
  using job::DType;
  CHECK(fixed_of(f, {}, DType::bf16) == Approx(1).epsilon(0.05));
  CHECK(fixed_of(f, {}, DType::fp16) == Approx(2).epsilon(0.05));
  // Restricted: fp16 is priced as the listed bf16.
  CHECK(fixed_of(f, {own}, DType::bf16) == Approx(3).epsilon(0.05));
  CHECK(fixed_of(f, {own}, DType::fp16) == Approx(3).epsilon(0.05));
  // With auto, in either position: what the list covers comes from the list, the rest from the
  // committed files.
  for (const auto& given : {std::vector<std::string>{"auto", own}, {own, "auto"}}) {
    CHECK(fixed_of(f, given, DType::bf16) == Approx(3).epsilon(0.05));
    CHECK(fixed_of(f, given, DType::fp16) == Approx(2).epsilon(0.05));
  }
  CHECK(fixed_of(f, {"auto"}, DType::bf16) == Approx(1).epsilon(0.05));
}

TEST_CASE("a folder gives the files of the device, and leaves other YAML alone") {
  const Folders f = two_folders();
  using job::DType;
  CHECK(fixed_of(f, {f.own.string()}, DType::fp16) == Approx(3).epsilon(0.05));
  CHECK(fixed_of(f, {"auto", f.own.string()}, DType::bf16) == Approx(3).epsilon(0.05));
  CHECK(fixed_of(f, {"auto", f.own.string()}, DType::fp16) == Approx(2).epsilon(0.05));
  // A relative name is looked up below the committed files.
  CHECK(fixed_of(f, {"h100-sxm"}, DType::bf16) == Approx(1).epsilon(0.05));

  const auto refused = [&](const std::vector<std::string>& given) -> std::string {
    try {
      (void)find_calibration(f.committed, "a100-sxm-80", given);
    } catch (const InputError& e) {
      return to_string(e.faults().front());
    }
    return "accepted";
  };
  CHECK_THAT(refused({f.own.string()}),
             ContainsSubstring("no file of the folder is of device 'a100-sxm-80'"));
  CHECK(refused({"auto", f.own.string()}) == "accepted");
  // If the job had no other device, the folder would apply to nothing.
  const std::vector<std::string> list{"auto", f.own.string()};
  CHECK_NOTHROW(check_folders(list, {"a100-sxm-80", "h100-sxm"}, f.committed));
  CHECK_THROWS_AS(check_folders(list, {"a100-sxm-80"}, f.committed), InputError);
  CHECK_THAT(refused({"auto", (f.own / "gemm.yaml").string()}),
             ContainsSubstring("the file is of h100-sxm, not of device 'a100-sxm-80'"));
  CHECK_THAT(refused({"auto", (f.own / "none.yaml").string()}),
             ContainsSubstring("cannot be read"));
  std::filesystem::create_directories(f.own / "empty");
  CHECK_THAT(refused({"auto", (f.own / "empty").string()}),
             ContainsSubstring("the folder holds no calibration files"));
}

TEST_CASE(
    "collectives: a file's head is that of the whole file, and its fits are read when asked for") {
  const auto whole = read_nccl_files(kCalibration);
  const auto heads = read_nccl_heads(kCalibration);
  REQUIRE(heads->size() == whole->size());
  for (std::size_t i = 0; i < whole->size(); ++i) {
    NcclFile known = (*whole)[i];
    known.logs.clear();
    const NcclFile& head = (*heads)[i];
    INFO(known.file);
    CHECK(head.file == known.file);
    CHECK(to_yaml(with_fits(head)) == to_yaml(known));
    if (!head.fits_in.empty()) {
      CHECK(to_yaml(known).starts_with(to_yaml(head)));
      CHECK(std::all_of(std::begin(head.fits), std::end(head.fits),
                        [](const auto& fits) { return fits.empty(); }));
    }
    CHECK(with_fits(head).file == known.file);
  }
  // A folder of other files: nobody has read them before.
  const std::filesystem::path folder = written("x", "").parent_path() / "heads" / "nccl";
  std::filesystem::create_directories(folder);
  const auto text = [](const std::string& size) {
    return "kind: nccl\nsystem: s\nscope: domain\ncompute_capability: 9\nnvlink: true\n"
           "provenance: \"a test\"\nops: {all_reduce: {residual: {below_1MiB: 0.1, from_1MiB: "
           "0.1}, "
           "fits: [{size: " +
           size +
           ", points: 1, latency_factor: 1, log2_share: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
           "0]}]}}\n";
  };
  std::ofstream(folder / "mine.yaml") << text("2");
  const auto mine = read_nccl_heads(folder.parent_path());
  REQUIRE(mine->size() == 1);
  CHECK(mine->front().fits_in.empty());
  CHECK(with_fits(mine->front()).fits[0].size() == 1);
  std::ofstream(folder / "mine.yaml") << text("0");
  CHECK_THROWS_AS(read_nccl_heads(folder / ".." / "."), InputError);
}

TEST_CASE("collectives: a folder's files are offered as if listed; auto alone changes nothing") {
  job::Cluster cluster;
  cluster.device = h100();
  cluster.device.nvlink = Bandwidth(450e9);
  cluster.node.gpus = 8;
  const auto files = read_nccl_files(kCalibration);
  const NcclFile* chosen = match_file(*files, Scope::domain, cluster, {});
  REQUIRE(chosen != nullptr);
  CHECK(match_file(*files, Scope::domain, cluster, {"auto"}) == chosen);

  const Folders f = two_folders();
  // The list has only kernel files, so collectives keep theirs.
  CHECK(match_file(*files, Scope::domain, cluster, {"auto", f.own.string()}) == chosen);
  std::filesystem::copy_file(kCalibration / "nccl" / "a100-sxm.yaml", f.own / "mine.yaml");
  const NcclFile* given = match_file(*files, Scope::domain, cluster, {"auto", f.own.string()});
  REQUIRE(given != nullptr);
  CHECK(given->system == "a100-sxm");
  CHECK(given != chosen);
}

TEST_CASE("curves of copies, overlap and launches: what is refused") {
  const auto file = [](const std::string& kind, const std::string& curves) {
    return head_text({kind, {"toy"}, "any", "a test"}) + curves;
  };
  CHECK(fault_of(file("copy", "  h2d: {latency: 1e-5, bandwidth: 5e10, residual: 0.1}\n")) ==
        "accepted");
  CHECK_THAT(fault_of(file("copy", "  h2e: {latency: 1e-5, bandwidth: 5e10, residual: 0.1}\n")),
             ContainsSubstring("'h2e' is not a known copy"));
  CHECK_THAT(fault_of(file("copy", "  h2d: {latency: 1e-5, bandwidth: 0, residual: 0.1}\n")),
             ContainsSubstring("bandwidth is 0"));
  CHECK_THAT(
      fault_of(file("overlap", "  arithmetic: {coefficient: -1, residual: 0.1, points: 9}\n")),
      ContainsSubstring("coefficient is -1"));
  CHECK_THAT(fault_of(file("overlap", "  gemm: {coefficient: 1, residual: 0.1, points: 9}\n")),
             ContainsSubstring("unknown key 'gemm'"));
  CHECK_THAT(fault_of(file("launch", "  host: 1e-6\n")),
             ContainsSubstring("key 'residual' is missing"));
}
