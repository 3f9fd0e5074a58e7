// Prices of kernels that someone has measured, from the calibration curves of one device.
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

// A measured kernel as the comparison shows it.
struct Shown {
  std::string id;
  std::vector<std::string> classes;  // the classes of shapes that it belongs to, the widest first
};

class KernelPrices {
 public:
  // `own` are the user's files and folders; they take precedence over the committed ones. Throws
  // InputError naming `library` where no calibration file covers it.
  KernelPrices(const job::Device& device, const std::string& library,
               const std::filesystem::path& calibration, const std::vector<std::string>& own);

  // An empty `library` means the one given to the constructor.
  Price gemm(const cost::GemmQuery& query, const std::string& library);
  Price experts(const cost::ExpertLayer& layer, job::DType dtype, const std::string& library);
  Price attention(const cost::AttentionQuery& query);
  Price memory(const std::string& op, std::int64_t bytes, std::int64_t row = 0);
  // Returns nullopt, with the reason in `why`, for a case that is not a single kernel (launches,
  // collectives, overlaps).
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
  std::vector<std::string> only_;  // in the form that cost::Kernels takes
  std::map<std::string, Curves> curves_;
};

Shown shown_gemm(const std::string& dtype, const model::Gemm& shape, const std::string& way);
Shown shown(const interop::GpuCase& what);

}  // namespace stepcast::validate
