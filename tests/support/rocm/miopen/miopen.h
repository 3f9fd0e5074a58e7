// What calibration/ uses of MIOpen 3.4 (ROCm 6.4): ../README.md.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

enum miopenStatus_t {
  miopenStatusSuccess = 0,
  miopenStatusBadParm = 3,
  miopenStatusAllocFailed = 4,
  miopenStatusNotImplemented = 6,
  miopenStatusUnsupportedOp = 8
};
enum miopenDataType_t { miopenHalf = 0, miopenFloat = 1, miopenBFloat16 = 5, miopenInt64 = 9 };
enum miopenProblemDirection_t {
  miopenProblemDirectionForward = 0,
  miopenProblemDirectionBackward = 1
};
enum miopenMhaMask_t { miopenMhaMaskNone = 0, miopenMhaMaskCausal = 1 };
enum miopenTensorArgumentId_t : unsigned {
  miopenTensorMhaK = 4,
  miopenTensorMhaQ,
  miopenTensorMhaV,
  miopenTensorMhaDescaleK,
  miopenTensorMhaDescaleQ,
  miopenTensorMhaDescaleV,
  miopenTensorMhaDescaleS,
  miopenTensorMhaScaleS,
  miopenTensorMhaScaleO,
  miopenTensorMhaDropoutProbability,
  miopenTensorMhaDropoutSeed,
  miopenTensorMhaDropoutOffset,
  miopenTensorMhaO,
  miopenTensorMhaAmaxO,
  miopenTensorMhaAmaxS,
  miopenTensorMhaM,
  miopenTensorMhaZInv,
  miopenTensorMhaDO,
  miopenTensorMhaDescaleO,
  miopenTensorMhaDescaleDO,
  miopenTensorMhaDescaleDS,
  miopenTensorMhaScaleDS,
  miopenTensorMhaScaleDQ,
  miopenTensorMhaScaleDK,
  miopenTensorMhaScaleDV,
  miopenTensorMhaDQ,
  miopenTensorMhaDK,
  miopenTensorMhaDV,
  miopenTensorMhaAmaxDQ,
  miopenTensorMhaAmaxDK,
  miopenTensorMhaAmaxDV,
  miopenTensorMhaAmaxDS,
  miopenTensorMhaMask = 1U << 31 | 1
};

using miopenHandle_t = struct miopenHandle*;
using miopenMhaDescriptor_t = struct miopenMhaDescriptor*;
using miopenProblem_t = struct miopenProblem*;
using miopenSolution_t = struct miopenSolution*;
using miopenFindOptions_t = struct miopenFindOptions*;
using miopenTensorDescriptor_t = struct miopenTensorDescriptor*;
struct miopenTensorArgument_t {
  miopenTensorArgumentId_t id;
  miopenTensorDescriptor_t* descriptor;
  void* buffer;
};

extern "C" {
const char* miopenGetErrorString(miopenStatus_t);
miopenStatus_t miopenGetVersion(std::size_t* major, std::size_t* minor, std::size_t* patch);
miopenStatus_t miopenCreateWithStream(miopenHandle_t*, hipStream_t);
miopenStatus_t miopenDestroy(miopenHandle_t);
miopenStatus_t miopenCreateMhaDescriptor(miopenMhaDescriptor_t*);
miopenStatus_t miopenSetMhaDescriptor(miopenMhaDescriptor_t, float scale);
miopenStatus_t miopenCreateMhaProblem(miopenProblem_t*, miopenMhaDescriptor_t,
                                      miopenProblemDirection_t);
miopenStatus_t miopenDestroyProblem(miopenProblem_t);
miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t*);
miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t, miopenDataType_t, int count,
                                         const int* dims, const int* strides);
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t);
miopenStatus_t miopenSetProblemTensorDescriptor(miopenProblem_t, miopenTensorArgumentId_t,
                                                miopenTensorDescriptor_t);
miopenStatus_t miopenFindSolutions(miopenHandle_t, miopenProblem_t, miopenFindOptions_t,
                                   miopenSolution_t*, std::size_t* found, std::size_t most);
miopenStatus_t miopenGetSolutionWorkspaceSize(miopenSolution_t, std::size_t*);
miopenStatus_t miopenRunSolution(miopenHandle_t, miopenSolution_t, std::size_t count,
                                 const miopenTensorArgument_t*, void* workspace, std::size_t);
miopenStatus_t miopenDestroySolution(miopenSolution_t);
}
