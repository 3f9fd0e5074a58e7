// Prepares a forecast before anything is simulated: the job with its site's parameters, its plan,
// and the prices of its tasks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "replay_memo.h"
#include "site.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/cost/open_facts.h"
#include "stepcast/cost/structure.h"
#include "stepcast/engine/engine.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lattices.h"
#include "stepcast/lower/lower.h"
#include "stepcast/lower/programs.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::forecast {

// What is kept between the jobs of one Forecaster: calibration, which is read once, and replays.
struct Forecaster::State {
  std::filesystem::path calibration;
  cost::CurveTable curves;
  std::map<std::string, cost::Kernels>
      kernels;  // by the figures of their device and the job's files
  std::vector<cost::Structure> structures;
  cost::MemoryStructures memory_structures;
  std::vector<cost::OpenFact> open_facts;
  // By a job's list of calibration files: the list without its site file, and that file's site.
  using FilesAndSite = std::pair<std::vector<std::string>, std::optional<cost::Site>>;
  std::map<std::vector<std::string>, FilesAndSite> sites;
  ReplayMemo replays;
  lower::LatticeMemo lattices;
  lower::FoldMemo folds;
  lower::ProgramMemo programs;
  // Of the programs that were run last.
  struct PreparedRun {
    std::uint64_t programs = 0;
    engine::Prepared of;
    std::vector<std::optional<SourceDigests>> sources = {};  // as rank_memory() has them
  };
  PreparedRun prepared;
  // Of the last few clusters, the last used first.
  struct KnownTopology {
    job::Cluster cluster;
    std::uint64_t seed = 0;
    cluster::Topology topology;
  };
  std::vector<KnownTopology> topologies;

  const FilesAndSite& site_of(const std::vector<std::string>& files);
  std::variant<cluster::Topology, Infeasible> topology_of(const job::Cluster& cluster,
                                                          std::uint64_t seed);
  // `clock`: factor on the rates of all arithmetic.
  const cost::Kernels* kernels_for(const job::Device& device, const job::Job& job, double clock);
};

// A job with its site's parameters, and with a distinct name for each of its devices.
struct JobAtSite {
  SiteUse site;
  job::Cluster cluster;  // as stated, by which calibration is chosen
  job::Job stated;       // with its devices as stated
  job::Job job;
};
// `given`: the site in place of the one that the job's calibration names; null: none.
JobAtSite job_at_site(Forecaster::State& state, job::Job stated, const cost::Site* given);

// Kernels are found by the name of their device. A device of an override that has other figures
// under a name already in use ("h100-sxm" at half its bandwidth) gets a name of its own.
// Calibration files are still chosen by the name that the job states.
job::Job with_distinct_devices(const job::Job& job);

// The topology and prices of a job's tasks.
struct Priced {
  cluster::Topology topology;
  std::unique_ptr<cost::Collectives> collectives;
  lower::Prices prices;
};
std::variant<Priced, Infeasible> price(Forecaster::State& state, const JobAtSite& s);

struct Prepared {
  SiteUse site;
  strategy::Plan plan;
  Priced priced;
};
std::optional<Infeasible> missing_calibration(const Forecaster::State& state,
                                              const job::Job& stated);
std::variant<Prepared, Infeasible> prepare(Forecaster::State& state, const job::Job& stated,
                                           const cost::Site* given);

// The programs of all ranks, with the site's slow-down beside communication.
program::World world_of(const Prepared& p, const lower::Options& options);

// What the job may use of a GPU's usable memory.
Bytes within_margin(const job::Memory& memory, Bytes usable);
// What the job may use of the largest GPU's memory.
Bytes largest_memory(const job::Job& job);

}  // namespace stepcast::forecast
