// The field's words that policies use, until the room `terms` holds them.
#pragma once

#include "stepcast/job/job.h"

namespace stepcast {

using job::AttentionKernel;
using job::ContextKind;
using job::DType;
using job::LossKernel;
using job::OffloadTarget;
using job::Optimizer;
using job::Sharding;
using job::TensorKind;
using job::TensorOverlap;
using job::bytes_per_element;
using ActivationOffload = job::System::ActivationOffload;
using AllocatorKind = job::Memory::Allocator;
using Dispatcher = job::MoeRuntime::Dispatcher;
using FinetuneKind = job::Finetune::Kind;
using Prefetch = job::System::Prefetch;
using RecomputeKind = job::Recompute::Kind;

}  // namespace stepcast
