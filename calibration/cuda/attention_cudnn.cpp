#include "attention_cudnn.h"

#include <fmt/format.h>

#include <utility>

#include "../harness/device.h"

namespace stepcast::harness::cuda {
namespace {

std::string last_error() {
  std::array<char, 1024> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return text.data();
}

}  // namespace

void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) {
    return;
  }
  const std::string message =
      fmt::format("{}: {} {}", what, cudnnGetErrorString(status), last_error());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
    throw Unsupported(message);
  }
  throw std::runtime_error(message);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) {
    cudnnBackendDestroyDescriptor(descriptor_);
  }
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  const cudnnStatus_t status = cudnnBackendSetAttribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check_cudnn(status, fmt::format("cuDNN attribute {}", static_cast<int>(name)).c_str());
  }
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  set(name, value.get());
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void Descriptor::finalize(const char* what) {
  check_cudnn(cudnnBackendFinalize(descriptor_), what);
}

CudnnDevice cudnn_device(cudnnHandle_t handle) { return {handle, Descriptor()}; }

CudnnDevice cudnn_device(const std::string& properties) {
  CudnnDevice device;
  device.properties = Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        static_cast<std::int64_t>(properties.size()), properties.c_str());
  device.properties.finalize("device properties");
  return device;
}

Dims packed(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

CudnnGraph::Tensor CudnnGraph::make(std::int64_t uid, const Dims& dims, const Dims& strides,
                                    cudnnDataType_t type, bool is_virtual, bool by_value) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<std::int64_t>(dims.begin(), dims.end()));
  d.set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<std::int64_t>(strides.begin(), strides.end()));
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  d.finalize("tensor");
  tensors_.push_back(std::move(d));
  return {tensors_.back().get(), dims, strides, uid};
}

CudnnGraph::Tensor CudnnGraph::tensor(std::int64_t uid, const Dims& dims, const Dims& strides,
                                      cudnnDataType_t type) {
  return make(uid, dims, strides, type, false, false);
}

CudnnGraph::Tensor CudnnGraph::value(std::int64_t uid) {
  return make(uid, kScalar, kScalar, CUDNN_DATA_FLOAT, false, true);
}

CudnnGraph::Tensor CudnnGraph::inner(const Dims& dims, cudnnDataType_t type) {
  return make(next_uid_++, dims, packed(dims), type, true, false);
}

CudnnGraph::Tensor CudnnGraph::inner(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
  return make(next_uid_++, dims, strides, type, true, false);
}

void CudnnGraph::operation(Descriptor op, const char* what) {
  op.finalize(what);
  operations_.push_back(std::move(op));
}

void CudnnGraph::matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
  Descriptor matmul(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  matmul.finalize("matmul");
  Descriptor op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  helpers_.push_back(std::move(matmul));
  operation(std::move(op), "matmul operation");
}

namespace {

Descriptor pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t compute) {
  Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  d.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
  return d;
}

}  // namespace

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y,
                           cudnnDataType_t compute) {
  Descriptor d = pointwise_mode(mode, compute);
  d.finalize("pointwise");
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  helpers_.push_back(std::move(d));
  operation(std::move(op), "pointwise operation");
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b,
                           const Tensor& y, cudnnDataType_t compute) {
  Descriptor d = pointwise_mode(mode, compute);
  d.finalize("pointwise");
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  helpers_.push_back(std::move(d));
  operation(std::move(op), "pointwise operation");
}

void CudnnGraph::select(const Tensor& mask, const Tensor& x, const Tensor& otherwise,
                        const Tensor& y) {
  Descriptor d = pointwise_mode(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  d.finalize("select");
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, otherwise.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  helpers_.push_back(std::move(d));
  operation(std::move(op), "select operation");
}

void CudnnGraph::index(std::int64_t axis, const Tensor& like, const Tensor& y) {
  Descriptor d = pointwise_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
  d.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  d.finalize("index");
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, like.descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  helpers_.push_back(std::move(d));
  operation(std::move(op), "index operation");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation_type, const Tensor& x, const Tensor& y) {
  Descriptor d(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  d.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation_type);
  d.finalize("reduction");
  Descriptor op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  helpers_.push_back(std::move(d));
  operation(std::move(op), "reduction operation");
}

void CudnnGraph::reshape(const Tensor& x, const Tensor& y) {
  Descriptor op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  operation(std::move(op), "reshape operation");
}

Descriptor CudnnGraph::finalize(const CudnnDevice& device) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& op : operations_) {
    all.push_back(op.get());
  }
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (device.handle != nullptr) {
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle);
  }
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(all.size()), all.data());
  graph.finalize("operation graph");
  return graph;
}

namespace {

std::vector<Descriptor> heuristics(const Descriptor& graph, const CudnnDevice& device,
                                   cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device.handle == nullptr) {
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.properties);
  }
  heuristic.finalize("heuristics");
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "count of engine configurations");
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configurations.back().get());
  }
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "engine configurations");
  configurations.resize(static_cast<std::size_t>(count));
  return configurations;
}

}  // namespace

Descriptor compile(const Descriptor& graph, const CudnnDevice& device) {
  std::string reasons;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> configurations;
    try {
      configurations = heuristics(graph, device, mode);
    } catch (const Unsupported& e) {
      reasons += e.what();
      continue;
    }
    for (const Descriptor& configuration : configurations) {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (device.handle != nullptr) {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle);
      } else {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.properties);
      }
      if (cudnnBackendFinalize(plan.get()) == CUDNN_STATUS_SUCCESS) {
        return plan;
      }
      reasons += last_error() + "; ";
    }
  }
  throw Unsupported(reasons.empty()
                        ? "cuDNN has no engine for this shape"
                        : "no engine of cuDNN could be built: " + reasons.substr(0, 400));
}

std::int64_t workspace_bytes(const Descriptor& plan) {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &bytes),
              "workspace of a plan");
  return bytes;
}

}  // namespace stepcast::harness::cuda
