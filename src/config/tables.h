// The option table: one Table per struct of the job. Keys are read and printed in its order.
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

// All keys of a job, for merging and for the schema.
const Spec& job_spec();

// A permutation of tp-cp-ep-dp-pp.
std::optional<std::string> read_rank_order(Reader& reader, const Value& value);

template <class S>
Field<S> rank_order(const char* key, std::string S::*member, const char* description) {
  Field<S> f = string(key, member, description);
  f.reads([member](Reader& r, const Value& v, S& s) {
    if (const auto order = read_rank_order(r, v)) {
      s.*member = *order;
    }
  });
  return f;
}

}  // namespace stepcast::config
