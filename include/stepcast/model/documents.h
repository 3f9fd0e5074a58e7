// Packed sequences of variable length: what attention inside documents computes of a whole causal sequence.
#pragma once

#include <cstdint>
#include <vector>

namespace stepcast::model {

// The documents that fill a sequence: the given lengths in turn, again from the first where they are too few, the last one
// cut. No lengths: one document.
std::vector<std::int64_t> fill_sequence(const std::vector<std::int64_t>& documents, std::int64_t sequence_length);

// Of the scores of a whole sequence (causal or not): sum of squares over the square of the sum.
double document_share(const std::vector<std::int64_t>& documents, std::int64_t sequence_length);

// (Query, key) pairs of the queries in [first, last) with keys at or before them, `window` at most (0: all), each inside
// its document. Exact up to the half pair that a query makes with itself.
double causal_pairs(const std::vector<std::int64_t>& filled, std::int64_t first, std::int64_t last, std::int64_t window);

}  // namespace stepcast::model
