// Packed sequences of documents of variable length: the share of a whole sequence's scores that attention inside documents
// computes.
#pragma once

#include <cstdint>
#include <vector>

namespace stepcast::model {

// The documents that fill a sequence: the given lengths in turn, repeated from the first where they are too few. The last
// document is cut at the sequence's end. Without lengths there is one document.
std::vector<std::int64_t> fill_sequence(const std::vector<std::int64_t>& documents, std::int64_t sequence_length);

// Share of the scores of a whole sequence (causal or not) that lie inside documents: sum of squares over the square of the
// sum.
double document_share(const std::vector<std::int64_t>& documents, std::int64_t sequence_length);

// Number of (query, key) pairs of the queries in [first, last), each with the keys of its own document at or before it, at
// most `window` of them (0: all). The pair of a query with itself counts half.
double causal_pairs(const std::vector<std::int64_t>& filled, std::int64_t first, std::int64_t last, std::int64_t window);

}  // namespace stepcast::model
