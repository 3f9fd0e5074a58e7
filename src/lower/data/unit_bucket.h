// The bucket in which DeepSpeed's stage 3 reduces gradients of units that are gathered whole.
#pragma once

#include <map>
#include <tuple>

#include "sharded_units.h"

namespace stepcast::lower {

// Where the copy is counted in which a bucket of several gradients is reduced.
enum class Joined : std::uint8_t {
  as_sent,      // behind the pass
  within_pass,  // where the gradient is made that overfills the bucket (UnitBucket)
};

// An array's gradient enters the bucket, which is reduced first where it would overflow.
void add_to_bucket(Stage& stage, int chunk, std::int64_t elements, bool expert, Joined joined);
// Reduces what a chunk's bucket of gradients holds.
void send_bucket(Stage& stage, int chunk, bool expert, Joined joined);

class UnitBucket {
 public:
  // A unit's gradients on their way into the bucket, and the copies of the buckets that they
  // overfill.
  struct Leaving {
    TensorList gradients, copies;
  };

  // `made`: a unit's gradients, all of them dense and whole arrays.
  const Leaving& leaving(Stage& stage, int chunk, const TensorList& made);

 private:
  // By a unit's list, and by the elements and the arrays that the bucket holds ahead of the pass.
  std::map<std::tuple<const TensorList*, std::int64_t, int>, Leaving> leaving_;
};

}  // namespace stepcast::lower
