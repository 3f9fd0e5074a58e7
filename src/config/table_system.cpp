#include "tables.h"

namespace stepcast::config {

using job::System;

const Table<System>& system_table() {
  static const Table<System> table = {
      string("name", &System::name, "Shown in reports."),
      choice("family", &System::family,
             Words<System::Family>{{{"megatron", System::Family::megatron},
                                    {"ddp", System::Family::ddp},
                                    {"fsdp2", System::Family::fsdp2},
                                    {"deepspeed", System::Family::deepspeed}},
                                   {"fsdp1"}},
             "Whose rules of data parallelism and streams apply."),
      string("generation", &System::generation, "The software generation, for reports."),
      boolean("fused_norm", &System::fused_norm, "A norm is one kernel."),
      boolean("fused_softmax", &System::fused_softmax,
              "Scale, mask and softmax are one kernel (unfused attention)."),
      boolean("fused_bias_activation", &System::fused_bias_activation,
              "Bias and GeLU, or SwiGLU, are one kernel."),
      boolean("fused_bias_dropout_add", &System::fused_bias_dropout_add,
              "Bias, dropout and residual are one kernel."),
      boolean("fused_rotary", &System::fused_rotary, "Rotary positions are one kernel."),
      boolean("fused_optimizer", &System::fused_optimizer,
              "The optimizer updates many tensors a kernel."),
      boolean("gradient_accumulation_fusion", &System::gradient_accumulation_fusion,
              "The weight-gradient GEMM adds into the main gradient."),
      boolean("transformer_engine", &System::transformer_engine,
              "Layers come from Transformer Engine, which has a GEMM workspace of its own."),
      integer("bucket_elements", &System::bucket_elements, 0, 1'000'000'000'000'000,
              "Gradient bucket size in parameters; 0: max(40e6, 1e6 * data) as Megatron."),
      quantity("bucket_bytes", &System::bucket_bytes, false,
               "Gradient bucket size in bytes instead; 0: bucket_elements holds."),
      quantity("first_bucket_bytes", &System::first_bucket_bytes, false,
               "Size of the first bucket; 0: as the others."),
      boolean("bucket_first_stage_only", &System::bucket_first_stage_only,
              "Only pipeline rank 0's first chunk has several buckets."),
      boolean("async_tensor_backward", &System::async_tensor_backward,
              "The input gradient's collective runs beside the weight-gradient GEMM."),
      boolean("batched_p2p", &System::batched_p2p,
              "Stage sends and receives are posted together and block compute."),
      boolean("scatter_gather_p2p", &System::scatter_gather_p2p,
              "Each tensor rank sends its share between stages and gathers it over NVLink."),
      quantity("launch", &System::launch, false, "Host time to issue one kernel."),
      quantity("layer_overhead", &System::layer_overhead, false,
               "Further host time per layer and pass."),
      boolean("sync_before_optimizer", &System::sync_before_optimizer,
              "The host waits for the gradient norm or the loss scale's check each step."),
      quantity("context_memory", &System::context_memory, false,
               "Memory of the CUDA context and libraries; 0: by device."),
      quantity("gemm_workspace", &System::gemm_workspace, false,
               "Workspace of one cuBLAS handle, inside the allocator; 0: by device."),
  };
  return table;
}

}  // namespace stepcast::config
