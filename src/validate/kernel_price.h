// What the curves of one device say of a kernel that someone timed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/cost/kernels.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/job/job.h"

namespace stepcast::validate {

struct Price {
  double seconds = 0;
  double residual = 0;  // relative standard deviation
};

// A timed kernel as the comparison shows it.
struct Shown {
  std::string id;
  std::vector<std::string> classes;  // kinds of shapes that it belongs to, the widest first
};

class KernelPrices {
 public:
  // `own`: a user's files and folders, which come before the committed ones. Throws InputError
  // naming `library` where no calibration file is of it.
  KernelPrices(const job::Device& device, const std::string& library,
               const std::filesystem::path& calibration, const std::vector<std::string>& own);

  // `library` "": the one asked for.
  Price gemm(const cost::GemmQuery& query, const std::string& library);
  Price experts(const cost::ExpertLayer& layer, job::DType dtype, const std::string& library);
  Price attention(const cost::AttentionQuery& query);
  Price memory(const std::string& op, std::int64_t bytes);
  // nullopt: no kernel alone (launches, collectives, overlaps), with the reason in `why`.
  std::optional<Price> measured(const interop::GpuCase& what, std::string& why);

 private:
  struct Curves {
    cost::CurveTable table;
    std::unique_ptr<cost::Kernels> kernels;
  };
  Curves& of(const std::string& library);

  job::Device device_;
  std::string library_;
  std::filesystem::path calibration_;
  std::vector<std::string> only_;  // as cost::Kernels takes them
  std::map<std::string, Curves> curves_;
};

Shown shown_gemm(const std::string& dtype, const model::Gemm& shape, const std::string& way);
Shown shown(const interop::GpuCase& what);

}  // namespace stepcast::validate
