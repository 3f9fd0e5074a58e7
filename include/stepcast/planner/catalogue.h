// A catalogue: clusters that can be rented or bought, with prices, power and places.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"

namespace stepcast::planner {

// A number with where it is from. No figure is read without a source.
struct Figure {
  double value = 0;
  std::string source;
};

struct Site {
  Figure pue;                         // energy at the meter over energy of the machines, at least 1
  std::optional<Figure> carbon;       // g CO2e a kWh
  std::optional<Figure> electricity;  // currency a kWh: needed where machines are bought
};

// W of one GPU.
struct DevicePower {
  Figure idle;
  Figure communicating;  // in collectives that nothing hides
  Figure load;           // in kernels
};

// W of one node without its GPUs.
struct HostPower {
  Figure idle, load;
  Figure peak;     // of its data sheet: what the building must be able to give
  Figure network;  // switches and optics, a node's share
};

struct Offer {
  std::string name;
  std::string cluster;  // of configs/clusters
  std::string site, host;
  Figure nodes;                    // that can be had at most
  std::string available;           // since when: "2024-12-03"; "": not said
  std::optional<Figure> rent;      // currency a GPU-hour; else bought:
  std::optional<Figure> purchase;  // currency a node
  std::optional<Figure> fabric;    // currency a node, for its share of the network
  std::optional<Figure> lifetime;  // years of straight-line depreciation
  Origin origin;
};

struct Catalogue {
  std::string name;
  std::string currency;
  std::map<std::string, Site> sites;
  std::map<std::string, DevicePower> devices;  // by names of configs/devices
  std::map<std::string, HostPower> hosts;
  std::vector<Offer> offers;
};

// configs/catalogue/NAME.yaml, or a path. Throws InputError with all faults: figures without a source, names that nothing
// has, clusters that configs/clusters lacks, offers neither rented nor bought.
Catalogue read_catalogue(const std::filesystem::path& file);

// Days since 1970-01-01 of "2025-06-01" or "2025-06" (its first). Throws std::invalid_argument.
long parse_date(const std::string& text);

}  // namespace stepcast::planner
