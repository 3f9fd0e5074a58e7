// Calibration of collectives from nccl-tests logs, for `simulate calibrate nccl` and fit_collectives. The law of a
// fitted curve is in src/cost/collective/predict.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

enum class NcclScope { domain = 0, network = 1 };  // inside one NVLink or PCIe domain; across domains

// A kind of machine that logs come from, and the clusters that its fit applies to.
struct NcclSystem {
  std::string name;  // of the calibration file
  NcclScope scope = NcclScope::domain;
  // Network scope: "ib", "roce", "efa", "slingshot", "tcpx", "tcp", "ethernet"; empty: the link of the committed system with
  // the same fabric, else not known. Domain scope: "profile" where times are not those of nccl-tests.
  std::string link;
  std::vector<std::string> devices;  // device names
  std::vector<std::string> nodes;    // node and cluster names (network scope)
  std::vector<std::string> fabrics;  // fabric names of the same kind
  job::Cluster cluster;              // facts of its nodes; the number of nodes comes from each point
};

struct NcclLog {
  std::string name;
  std::string source;
  std::string nccl;  // version as the log states it; empty: not stated
  std::string algo;  // forced with NCCL_ALGO; empty: NCCL's choice
  std::string site;  // logs of one site are repeats of one machine; empty: a site of its own
};

// One size of one log, as nccl-tests counts it (all-gather and reduce-scatter: the full gathered buffer).
struct NcclPoint {
  int log = 0;  // index into the logs
  int nodes = 1;
  int gpus_per_node = 1;
  std::string collective;  // name of Collective or of nccl-tests: "all_reduce", "alltoall", "sendrecv"
  Bytes size;
  Time time;
};

// Errors of predicted over measured times, p/m: median and worst of |p/m - 1|, spread of ln(p/m) about zero.
struct NcclDeviation {
  int points = 0;
  double median = 0;
  double bias = 0;  // median of p/m - 1
  double p90 = 0;   // of |p/m - 1|
  double worst = 0;
  double spread = 0;
};
struct NcclDeviations {
  NcclDeviation small;  // below 1 MiB
  NcclDeviation large;  // from 1 MiB on
};

struct NcclSeries {
  std::string collective;
  int size = 0;  // ranks of the domain, or domains of the network
  int points = 0;
  NcclDeviations blind;     // NCCL's plain model
  NcclDeviations fitted;    // the curve itself
  NcclDeviations left_out;  // a curve fitted without the log (with a single log: without the point)
};

struct NcclFitted {
  std::vector<NcclSeries> series;
  std::string yaml;             // text of the calibration file: curves, residuals, provenance
  std::vector<Time> predicted;  // for every point given, in their order, by the curve of its series
};

// Throws InputError for an unknown collective, a time that is not positive, or a cluster that cannot be built. The prior of
// a curve is that of the same kind of machine in `calibration_dir`; the fewer points there are, the more it weighs.
NcclFitted fit_nccl(const NcclSystem& system, const std::vector<NcclLog>& logs, const std::vector<NcclPoint>& points,
                    const std::filesystem::path& calibration_dir);

// The time that the calibration expects for a point, to tell degraded logs from healthy ones.
struct NcclExpected {
  Time time{0};
  double residual = 0;  // relative standard deviation of healthy logs about that time
  std::string file;     // file of the curve; "datasheet": NCCL's plain model
};
NcclExpected expect_nccl(const NcclSystem& system, const NcclLog& log, const NcclPoint& point,
                         const std::filesystem::path& calibration_dir);

// The committed measurements: nccl/data/systems.yaml and its CSVs below `calibration_dir`.
struct NcclMeasured {
  NcclSystem system;
  std::vector<NcclLog> logs;
  std::vector<NcclPoint> points;
};
std::vector<NcclMeasured> read_nccl_data(const std::filesystem::path& calibration_dir);

// A point predicted by files that were fitted without its log (or without all logs of its site), where the file is chosen as
// for a user's cluster.
struct NcclLeftOut {
  int system = 0;  // index into the measurements
  int point = 0;
  double blind = 0;  // seconds; NCCL's plain model
  double predicted = 0;
  double measured = 0;
  std::string file;
  double residual = 0;  // with whole sites left out: the relative standard deviation that the other sites give
};
enum class NcclLeave { log, site };
// `every`: take only every n-th log or site, for tests.
std::vector<NcclLeftOut> leave_out(const std::vector<NcclMeasured>& measured, NcclLeave leave, int every = 1);

// Calibration files of all systems, and of kinds of systems for clusters that no system's file applies to.
struct NcclText {
  std::string file;  // relative to the calibration folder
  std::string yaml;
};
enum class NcclResiduals { none, left_out };  // none: zeros, in a tenth of the time
std::vector<NcclText> fit_all(const std::vector<NcclMeasured>& measured, NcclResiduals residuals = NcclResiduals::left_out);

}  // namespace stepcast::cost
