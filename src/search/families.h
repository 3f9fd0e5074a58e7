// Splits a space into families: combinations that differ only in the values that a Bound
// distinguishes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// The texts and values of one dimension. A dimension that is not in the space has no texts, and its
// value is that of the job.
template <class T>
struct Choices {
  std::string key;
  std::vector<std::string> texts;
  std::vector<T> values;
};

// Values on which no Layout (bound.h) depends; each layout is combined with all of them.
struct Free {
  std::size_t offload = 0;  // index into Inner::offload
  bool grad_reduce = true, param_gather = false, pipeline_overlap = false;
};

struct Inner {
  Choices<int> tensor, pipeline, chunks, data, context, expert_tensor;
  Choices<std::int64_t> micro_batch;
  Choices<char> sequence_parallel;
  Choices<job::Sharding> sharding;
  Choices<job::Recompute> recompute;
  Choices<job::TensorOverlap> tensor_overlap;
  // The free dimensions, on which no layout depends.
  Choices<job::Offload> offload;
  Choices<char> grad_reduce;
  Choices<char> param_gather, pipeline_overlap;  // no bound depends on these two

  std::vector<Free> free() const;
  void take(const Free& free, bound::Candidate& candidate) const;
  std::int64_t layouts() const;  // number of combinations of the other dimensions
  // The numbers of the first combinations, of the other dimensions and of the free ones, that are
  // one job with this one (alike.h).
  std::uint64_t first_layout(std::uint64_t layout, const bound::Candidate& candidate) const;
  std::size_t first_free(std::size_t n, const bound::Candidate& candidate) const;
  // The combination with the number `layout` in the order of each_layout.
  bound::Candidate candidate(std::uint64_t layout, int ranks) const;
  // The texts of one combination: `index` is layout * free().size() + free.
  std::vector<std::string> texts(std::uint64_t index) const;
  // The index of a combination given by all its texts, "KEY=VALUE". Returns nothing if one of them
  // is not in the space.
  std::optional<std::uint64_t> index_of(const std::vector<std::string>& texts) const;
  // Whether a number stands for the same texts and values in `other`.
  bool same_choices(const Inner& other) const;
};

// A data-parallel size that is not stated (0) follows from the other sizes. Returns 0 if they do
// not divide the ranks.
inline int data_size(int stated, int ranks, int others) {
  return stated > 0 ? stated : ranks % others == 0 ? ranks / others : 0;
}

// Calls `visit(layout, candidate)` for all combinations of the dimensions that are not free, in the
// order of their numbers.
template <class Visit>
void each_layout(const Inner& in, int ranks, const Visit& visit) {
  std::uint64_t number = 0;
  bound::Candidate c;
  for (const int tensor : in.tensor.values) {
    c.tensor = tensor;
    for (const int context : in.context.values) {
      c.context = context;
      for (const int expert_tensor : in.expert_tensor.values) {
        c.expert_tensor = expert_tensor;
        for (const std::int64_t micro_batch : in.micro_batch.values) {
          c.micro_batch = micro_batch;
          for (const job::Recompute& recompute : in.recompute.values) {
            c.recompute = recompute;
            for (const char sequence_parallel : in.sequence_parallel.values) {
              c.sequence_parallel = sequence_parallel != 0;
              for (const job::TensorOverlap overlap : in.tensor_overlap.values) {
                c.tensor_overlap = overlap;
                for (const int pipeline : in.pipeline.values) {
                  c.pipeline = pipeline;
                  for (const int data : in.data.values) {
                    c.data = data_size(data, ranks, tensor * context * pipeline);
                    for (const int chunks : in.chunks.values) {
                      c.virtual_pipeline = chunks;
                      for (const job::Sharding sharding : in.sharding.values) {
                        c.sharding = sharding;
                        visit(number++, c);
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

struct Family {
  std::vector<std::string> keys;  // keys of the space, in its order
  std::vector<std::string> overrides;
  Inner inner;
  double gpus = 0;
  double rate = 1;      // objective per second of step time
  double capacity = 0;  // usable bytes of the largest GPU
  // Families before this one that differ from it in the schedule or the order of ranks alone
  // (alike.h), by number.
  std::vector<std::uint32_t> kin;
};

// All overrides of one combination of the family, in the space's order.
std::vector<std::string> overrides_of(const Family& family, std::uint64_t index);

// Counts the refused combinations by reason.
class Refusals {
 public:
  // A family that has no job: all its combinations are refused, one of them for this reason.
  struct Whole {
    std::vector<std::string> overrides;
    Infeasible why;
    std::int64_t combinations = 0;
  };

  void add(const Infeasible& why, std::int64_t count);
  void add(Whole family) { whole_.push_back(std::move(family)); }
  std::vector<Whole> take_whole() { return std::exchange(whole_, {}); }
  std::vector<std::pair<std::string, std::int64_t>> sorted() const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> counts_;
  std::vector<Whole> whole_;
};

// Where no combination of the space is possible: asks combinations of the families that have no job
// for all their reasons, as many as a second allows, spread over each family.
void ask_whole(const Request& request, const JobLoader& loader, Refusals& refusals,
               result::SearchCounts& counts);

// Finds out why no combination of a family can run, from as many combinations as a second or two
// allow. `asked` counts the combinations tried so far, over all families.
void say_why(const Family& family, bound::Bound& bound, std::int64_t& asked, Refusals& refusals);

// Calls `visit` with each family that can be priced. Combinations of the other families, and values
// of inner dimensions that no job accepts, are counted as impossible. Once `stop` is set, families
// are only counted as candidates.
void each_family(const Request& request, const JobLoader& loader, forecast::Forecaster& forecaster,
                 result::SearchCounts& counts, Refusals& refusals,
                 const std::function<void(Family&&, forecast::Forecaster::Bounds&&)>& visit,
                 const Stop* stop = nullptr);

}  // namespace stepcast::search
