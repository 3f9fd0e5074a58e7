// cuDNN's backend API in C++: descriptors that release themselves, graphs of operations, and
// execution plans. A device may be described by its properties instead of a handle; no GPU is
// needed then.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::harness::cuda {

// Throws Unsupported if cuDNN reports that it does not support this, and std::runtime_error for
// other errors.
void check_cudnn(cudnnStatus_t status, const char* what);

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
  void finalize(const char* what);

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// The device for which a graph is compiled: the GPU of a handle, or one that is only described.
struct CudnnDevice {
  cudnnHandle_t handle = nullptr;
  Descriptor properties;  // set where handle is null
};
CudnnDevice cudnn_device(cudnnHandle_t handle);
// Parses cuDNN's JSON text of a GPU's properties.
CudnnDevice cudnn_device(const std::string& properties);

using Dims = std::array<std::int64_t, 4>;
inline constexpr Dims kScalar = {1, 1, 1, 1};
Dims packed(const Dims& dims);  // strides of a tensor whose last dimension is contiguous

// Adds operations in order. Tensors between them are virtual: they exist only inside the fused
// kernel. The compute type is fp32.
class CudnnGraph {
 public:
  struct Tensor {
    cudnnBackendDescriptor_t descriptor = nullptr;
    Dims dims{};
    Dims strides{};
    std::int64_t uid = 0;
  };

  // A tensor in memory with this unique id (below 1000; other tensors get ids from 1000 on).
  Tensor tensor(std::int64_t uid, const Dims& dims, const Dims& strides, cudnnDataType_t type);
  Tensor value(std::int64_t uid);  // an fp32 scalar given from host memory at each launch
  Tensor inner(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor inner(const Dims& dims, const Dims& strides, cudnnDataType_t type);

  void matmul(const Tensor& a, const Tensor& b, const Tensor& c);
  // y = mode(x) or mode(x, b), or a selection between x and b by t.
  void pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b, const Tensor& y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void select(const Tensor& mask, const Tensor& x, const Tensor& otherwise, const Tensor& y);
  void index(std::int64_t axis, const Tensor& like, const Tensor& y);
  void reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& y);
  void reshape(const Tensor& x, const Tensor& y);

  // Returns the operation graph. Call this once and keep this object, since the graph refers to its
  // operations.
  Descriptor finalize(const CudnnDevice& device);

 private:
  Tensor make(std::int64_t uid, const Dims& dims, const Dims& strides, cudnnDataType_t type,
              bool is_virtual, bool by_value);
  void operation(Descriptor op, const char* what);

  std::vector<Descriptor> tensors_, helpers_, operations_;
  std::int64_t next_uid_ = 1000;
};

// Returns the first plan that compiles, in the order that cuDNN's heuristics recommend, followed by
// its fallbacks. Throws Unsupported.
Descriptor compile(const Descriptor& graph, const CudnnDevice& device);
std::int64_t workspace_bytes(const Descriptor& plan);

}  // namespace stepcast::harness::cuda
