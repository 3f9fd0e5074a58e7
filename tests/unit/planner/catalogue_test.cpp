// Catalogues: faults have positions, and the shipped catalogue is complete.
#include "stepcast/planner/catalogue.h"

#include "../../support/folder.h"
#include "catch.hpp"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

TEST_CASE("faults of a catalogue have their places") {
  const test::Folder folder;
  const std::string path = folder.write(
      "c.yaml",
      "currency: USD\n"
      "sites:\n"
      "  here: {pue: {value: 0.9, source: me}}\n"
      "devices:\n"
      "  h100-sxm: {idle: {value: 70 W}, communicating: {value: 350 W, source: me},\n"
      "             load: {value: hot, source: me}}\n"
      "offers:\n"
      "  - {name: a, cluster: dgx-h10, site: there, host: b, nodes: {value: 0, source: me}}\n"
      "  - {name: a, prize: 1}\n"
      "  - {name: c, cluster: dgx-h100, site: here, host: b, nodes: {value: 4, source: me},\n"
      "     slice: {value: 2, source: me}, rent: {value: 2, source: me}}\n");
  std::vector<std::string> found;
  try {
    planner::read_catalogue(path);
    FAIL("no fault");
  } catch (const InputError& error) {
    for (const Fault& f : error.faults()) {
      found.push_back(std::to_string(f.where.line) + ": " + f.message);
    }
  }
  const auto has = [&](const std::string& text) {
    for (const std::string& f : found) {
      if (f.find(text) == 0) {
        return true;
      }
    }
    return false;
  };
  CHECK(has("3: pue is 0.9; expected at least 1"));
  CHECK(has("5: idle needs a value and a source"));
  CHECK(has("6: value: 'hot' has no number; expected a power such as '700 W'"));
  CHECK(has("8: nodes is 0; expected 1 to 1000000"));
  CHECK(has("8: there is no cluster 'dgx-h10' (did you mean 'dgx-h100'?)"));
  CHECK(has("8: there is no site 'there'"));
  CHECK(has("8: the offer a needs either a rent or a purchase"));
  CHECK(has("9: unknown key 'prize' of an offer"));
  CHECK(has("9: the offer a is listed twice"));
  CHECK(has("10: the offer c states a slice, but dgx-h100 is no torus"));
}

namespace {

// A catalogue of one offer beside the files of its cluster and device.
std::string catalogue_of_ones_own(const test::Folder& folder, const std::string& device,
                                  const std::string& cluster) {
  folder.write("mydev.yaml",
               "name: acme-x1\nmemory: 80 GB\nmemory_bandwidth: 3350 GB/s\npeak: {bf16: 800 "
               "TFLOP/s}\npower: 600 W\n");
  folder.write("mycluster.yaml", "device: mydev.yaml\nnode: {gpus: 8, nic: 400 Gb/s, nics: 8}\n");
  folder.write("lacking.yaml", "device: {name: z, memory: 80 GB}\nnode: {gpus: 8}\n");
  folder.write("faulty.yaml", "device: mydev.yaml\nnode: {gpus: many}\n");
  return folder.write(
      "c.yaml", "currency: EUR\nsites:\n  here: {pue: {value: 1.4, source: me}}\ndevices:\n  " +
                    device +
                    ": {idle: {value: 70 W, source: me}, communicating: {value: 300 W, source: "
                    "me}, load: {value: 600 W, source: me}}\nhosts:\n  mine: {}\noffers:\n  - "
                    "{name: own, site: here, host: mine, nodes: {value: 8, source: me}, rent: "
                    "{value: 2, source: me}, cluster: " +
                    cluster + "}\n");
}

std::vector<std::string> faults_of(const std::string& catalogue) {
  std::vector<std::string> out;
  try {
    planner::read_catalogue(catalogue);
  } catch (const InputError& error) {
    for (const Fault& fault : error.faults()) {
      const std::string text = to_string(fault);
      out.push_back(text.substr(text.rfind('/', text.find(".yaml:")) + 1));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a cluster and a device of a catalogue may be files beside it") {
  const test::Folder folder;
  for (const std::string device : {"mydev.yaml", "acme-x1"}) {
    const auto c = planner::read_catalogue(catalogue_of_ones_own(folder, device, "mycluster.yaml"));
    CHECK(c.offers.at(0).cluster == folder.file("mycluster.yaml"));
    CHECK(c.devices.at("acme-x1").load.value == 600);
    CHECK(input::network(c.offers.at(0).cluster, 1).cluster.device.name == "acme-x1");
  }
  using Lines = std::vector<std::string>;
  CHECK(faults_of(catalogue_of_ones_own(folder, "acme-x1", "nope.yaml")) ==
        Lines{"c.yaml:9:5: error: there is no file 'nope.yaml'; expected the path of a cluster"});
  CHECK(faults_of(catalogue_of_ones_own(folder, "acme-x2", "mycluster.yaml")) ==
        Lines{"c.yaml:5:3: error: there is no device 'acme-x2' (did you mean 'acme-x1'?)",
              "c.yaml:9:5: error: the offer own: devices has no entry for acme-x1"});
  CHECK(faults_of(catalogue_of_ones_own(folder, "mydev.yaml", "faulty.yaml")).at(0) ==
        "faulty.yaml:2:14: error: node.gpus is 'many'; expected an integer from 1 to 1024");
  const auto lacking = faults_of(catalogue_of_ones_own(folder, "z", "lacking.yaml"));
  REQUIRE(lacking.size() == 2);
  CHECK(lacking[0].find("states no memory_bandwidth; expected a bandwidth such as 3350 GB/s") !=
        std::string::npos);
  CHECK(lacking[1].find("states no peak; expected rates such as") != std::string::npos);
}

TEST_CASE("a bare figure says what to write") {
  const test::Folder folder;
  const std::string path = folder.write(
      "c.yaml",
      "currency: USD\nsites:\n  here: {pue: 1.4}\ndevices:\n  h100-sxm: {idle: 70 W}\nhosts:\n"
      "  mine: {}\noffers:\n"
      "  - {name: a, cluster: dgx-h100, site: here, host: mine, nodes: 4, rent: [2]}\n");
  CHECK(
      faults_of(path) ==
      std::vector<std::string>{
          "c.yaml:3:15: error: pue is '1.4'; expected {value: 1.4, source: TEXT}: every figure "
          "states where it is from",
          "c.yaml:5:20: error: idle is '70 W'; expected {value: 70 W, source: TEXT}: every figure "
          "states where it is from",
          "c.yaml:9:65: error: nodes is '4'; expected {value: 4, source: TEXT}: every figure "
          "states "
          "where it is from",
          "c.yaml:9:74: error: rent; expected {value: NUMBER, source: TEXT}: every figure states "
          "where it is from"});
}

TEST_CASE("dates") {
  CHECK(planner::parse_date("1970-01-02") == 1);
  CHECK(planner::parse_date("2024-03") - planner::parse_date("2024-02") == 29);
  for (const char* text : {"", "2024", "2024-13", "2024-02-30", "2024-2-3", "24-02-03", "soon"}) {
    INFO(text);
    CHECK_THROWS_AS(planner::parse_date(text), std::invalid_argument);
  }
}

// The reader already refuses numbers without a source and unknown names. This tests that every
// offer's power belongs to its own device, and that the peak is at least the load.
TEST_CASE("the catalogue that we ship is whole") {
  const auto c = planner::read_catalogue(text::data_directory() / "configs/catalogue/default.yaml");
  CHECK(c.offers.size() >= 15);
  bool rented = false, bought = false, unpriced = false;
  for (const planner::Offer& o : c.offers) {
    INFO(o.name);
    const auto cluster = input::network(o.cluster, 1).cluster;
    const planner::DevicePower& d = c.devices.at(cluster.device.name);
    CHECK(d.load.value == cluster.device.power.count());  // the rated power in configs/devices
    CHECK(d.idle.value > 0);
    CHECK_FALSE(o.available.empty());
    CHECK(c.sites.at(o.site).carbon.has_value());
    if (!o.unpriced.empty()) {  // nobody stated a price: a user's to fill in
      CHECK_FALSE((o.rent || o.purchase));
      unpriced = true;
      continue;
    }
    (o.rent ? rented : bought) = true;
    const planner::Figure& price = o.rent ? *o.rent : *o.purchase;
    CHECK(price.value > 0);
    CHECK(price.source.find("20") != std::string::npos);  // states its year
  }
  CHECK(rented);
  CHECK(bought);
  CHECK(unpriced);
}
