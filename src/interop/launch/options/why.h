// Why options are not read, in the words that several systems share.
#pragma once

namespace stepcast::interop::launch::why {

// Of options without a meaning for a forecast.
inline constexpr const char* kLearning = "affects learning and not speed";
inline constexpr const char* kData = "data loading is assumed to be fast enough";
inline constexpr const char* kLogging = "logging";
inline constexpr const char* kProfiling = "profiling";
inline constexpr const char* kCheckpoints = "checkpoints are not part of a step";
inline constexpr const char* kEvaluation = "evaluation is not part of a training step";
inline constexpr const char* kOther = "no part of a training step";
inline constexpr const char* kLength = "the length of the run";
inline constexpr const char* kProcesses = "how the processes start";
inline constexpr const char* kLoading = "how weights are loaded";
inline constexpr const char* kOrigin = "where the model comes from";
inline constexpr const char* kTokenizer = "where the tokenizer comes from";
inline constexpr const char* kResults = "where results go";
inline constexpr const char* kNumerics = "numerics of the same cost";
inline constexpr const char* kSame = "another implementation of the same operation";
inline constexpr const char* kNorm = "the time of the gradient norm is always included";
inline constexpr const char* kViews = "views of the same parameters";

// Of these and of options that are not modelled.
inline constexpr const char* kUnit = "a unit is a layer";
inline constexpr const char* kOneModel = "one model is trained, and no other runs beside it";
inline constexpr const char* kKernels = "kernels as PyTorch has them";

}  // namespace stepcast::interop::launch::why
