// A catalogue of clusters that can be rented or bought: their prices, their power, and the sites where they are.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"

namespace stepcast::planner {

// A number with its source, without which no figure is accepted.
struct Figure {
  double value = 0;
  std::string source;
};

struct Site {
  Figure pue;                    // power usage effectiveness: energy at the meter over energy of the machines, at least 1
  std::optional<Figure> carbon;  // g CO2e per kWh
  std::optional<Figure> electricity = {};  // currency per kWh; required where machines are bought
  // Of machines that are bought. What is left out costs nothing, and a plan says so.
  std::optional<Figure> utilisation = {};  // share of the lifetime in which they work for somebody: the rest is paid for too
  std::optional<Figure> interest = {};     // per year, on the capital bound
  std::optional<Figure> colocation = {};   // currency per kW of the highest power and month
  std::optional<Figure> staff = {};        // currency per node and year
};

// Power of one GPU in W.
struct DevicePower {
  Figure idle;
  Figure communicating;  // in collectives that no kernel hides
  Figure load;           // in kernels
};

// Power in W of one node without its GPUs.
struct HostPower {
  Figure idle, load;
  Figure peak;     // by its data sheet: what the building must be able to supply
  Figure network;  // of switches and optics, the share of one node
};

struct Offer {
  std::string name;
  std::string cluster;  // a name in configs/clusters, or a path
  std::string site, host;
  Figure nodes;                    // the number of nodes on offer
  std::optional<Figure> slice;     // of a torus: nodes of its largest slice; more are equal slices (multislice)
  std::string available;           // first day on which it is available, "2024-12-03"; "": not stated
  std::string unpriced;            // why neither a rent nor a purchase is known; "": one is
  std::optional<Figure> rent;      // currency per GPU-hour; nullopt: the cluster is bought, for
  std::optional<Figure> purchase;  // currency per node,
  std::optional<Figure> fabric;    // currency per node for its share of the network,
  std::optional<Figure> lifetime;  // and depreciated linearly over so many years
  Origin origin;

  // How many slices of the torus so many nodes are; nullopt: they are not whole slices. 1 where the offer states no slice.
  std::optional<int> slices(int count) const;
};

struct Catalogue {
  std::string name;
  std::string currency;
  std::map<std::string, Site> sites;
  std::map<std::string, DevicePower> devices;  // by their names: of configs/devices, or of devices in files
  std::map<std::string, HostPower> hosts;
  std::vector<Offer> offers;
};

// Reads a catalogue. A cluster, and a device of `devices`, may be a path, which starts at the catalogue's folder. Throws
// InputError with all faults: figures without a source, names that are not defined, clusters that are not there or at fault,
// offers that can be neither rented nor bought.
Catalogue read_catalogue(const std::filesystem::path& file);

// Days from 1970-01-01 to "2025-06-01", or to the first day of "2025-06". Throws std::invalid_argument.
long parse_date(const std::string& text);

}  // namespace stepcast::planner
