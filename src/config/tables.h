// The option table: one Table per struct of the job. Order is reading order, for people and for the
// reader.
#pragma once

#include "field.h"
#include "stepcast/job/job.h"

namespace stepcast::config {

const Table<job::Model>& model_table();
const Table<job::Device>& device_table();
const Table<job::Node>& node_table();
const Table<job::Fabric>& fabric_table();
const Table<job::Cluster>& cluster_table();
const Table<job::System>& system_table();
const Table<job::Parallelism>& parallelism_table();
const Table<job::Memory>& memory_table();
Field<job::Memory> offload();          // of memory_table
Field<job::Workload> micro_batches();  // of job_table's workload
const Table<job::Job>& job_table();

// The job's keys with everything below them: what merging and the schema need.
const Spec& job_spec();

// Whether it is a permutation of tp-cp-ep-dp-pp.
bool is_rank_order(const std::string& order);

}  // namespace stepcast::config
