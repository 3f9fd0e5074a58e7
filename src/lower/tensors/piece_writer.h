// Writes pieces of a graph's operators, and knows which of them each operator's results are
// (unit_pieces.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/model/names.h"
#include "unit_pieces.h"

namespace stepcast::lower {

inline std::int64_t part_of(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(std::llround(static_cast<double>(bytes) * share));
}

// In place of a piece: the unit's input.
inline constexpr auto kOutsideUnit = static_cast<std::size_t>(-1);

class PieceWriter {
 public:
  using Operator = model::Operator;

  PieceWriter(const model::OperatorGraph& graph, const UnitOptions& options)
      : graph_(graph), options_(options), values_(graph.operators.size()) {
    out_.count.assign(graph.operators.size(), 0);
    for (const Operator& op : graph.operators) {
      for (const model::Saved& saved : op.saved) {
        next_storage_ = std::max(next_storage_, saved.storage + 1);
      }
    }
  }

  std::size_t size() const { return graph_.operators.size(); }
  const Operator& op(std::size_t i) const { return graph_.operators[i]; }
  const UnitOptions& options() const { return options_; }
  const TensorRules& rules(std::size_t i) const { return options_.rules[i]; }

  std::vector<std::size_t> producers(std::size_t i) const {
    std::vector<std::size_t> out;
    for (const auto& [producer, consumer] : graph_.edges) {
      if (static_cast<std::size_t>(consumer) == i) {
        out.push_back(static_cast<std::size_t>(producer));
      }
    }
    return out;
  }
  // The pieces whose results the operator reads.
  std::vector<std::size_t> read_by(std::size_t i) const {
    std::vector<std::size_t> out;
    for (const std::size_t p : producers(i)) {
      out.insert(out.end(), values_[p].begin(), values_[p].end());
    }
    return out;
  }
  bool reads_only(std::size_t i, std::size_t producer) const {
    return producers(i) == std::vector<std::size_t>{producer};
  }

  std::size_t add(std::size_t of, Operator piece, TensorRules r,
                  const std::vector<std::size_t>& from) {
    const std::size_t at = out_.operators.size();
    out_.operators.push_back(std::move(piece));
    out_.rules.push_back(std::move(r));
    out_.of.push_back(of);
    out_.number.push_back(out_.count[of]++);
    for (const std::size_t f : from) {
      out_.edges.emplace_back(f == kOutsideUnit ? -1 : static_cast<int>(f), static_cast<int>(at));
    }
    return at;
  }

  void whole(std::size_t i) {
    const std::vector<std::size_t> from = read_by(i);
    Operator piece = op(i);
    TensorRules r = rules(i);
    r.backward += r.summed;
    r.input_grad += r.summed;
    if (op(i).kind == model::OpKind::norm) {
      r.scratch = {};  // stands beside less than the other temporaries
    }
    if (from.size() > producers(i).size()) {
      piece.input_gradient.reset();  // of each of what it reads, as large as that
    }
    values_[i] = {add(i, std::move(piece), std::move(r), from)};
  }

  std::vector<double> shares(std::size_t i) const {
    return rules(i).results.empty() ? std::vector<double>{1} : rules(i).results;
  }
  // The n-th product's part of what all of them have.
  std::int64_t cut(std::size_t i, std::size_t n, std::int64_t whole) const {
    const std::vector<double> all = shares(i);
    std::int64_t rest = whole;
    for (std::size_t k = 0; k + 1 < all.size(); ++k) {
      rest -= part_of(whole, all[k]);
    }
    return n + 1 == all.size() ? rest : part_of(whole, all[n]);
  }

  // A piece in the places of operator `of` that stands for a part of operator `i`.
  std::size_t add_elementwise(std::size_t of, std::size_t i, const char* name, Bytes result,
                              Operator::Gradient gradient, const std::vector<std::size_t>& from) {
    Operator piece = op(i);
    piece.name += std::string(" ") + name;
    piece.kind = model::OpKind::elementwise;
    piece.saved.clear();
    piece.forward_temporary = piece.backward_temporary = piece.largest_temporary = Bytes(0);
    piece.input_gradient.reset();
    piece.gradient = gradient;
    piece.forward_output = result;
    TensorRules r = rules(i);
    r.results.clear();
    return add(of, std::move(piece), std::move(r), from);
  }

  // A tensor in place of a part of a storage: its own storage.
  std::uint32_t new_part(std::uint32_t storage, Bytes bytes) {
    parts_[storage].push_back({"", bytes, next_storage_});
    return next_storage_++;
  }
  // The piece's result is its own part of a storage, of a number that is returned.
  std::uint32_t own_part(std::uint32_t storage, std::size_t piece) {
    Operator& made = out_.operators[piece];
    const std::uint32_t own = new_part(storage, made.forward_output);
    made.saved.push_back({"output", made.forward_output, own});
    storage_of_[piece] = own;
    of_storage_[storage].push_back(piece);
    return own;
  }

  // A product that reads a table, which is no parameter's, keeps it.
  void keep_table(std::size_t product, std::size_t table) {
    out_.edges.emplace_back(static_cast<int>(table), static_cast<int>(product));
    out_.operators[product].saved.push_back(
        {kCastWeight, out_.operators[table].forward_output, next_storage_++});
    tables_.push_back(table);
  }
  // The tables since the last call are variables of a function that returns behind this piece.
  void hold_tables(std::size_t until) {
    for (const std::size_t table : tables_) {
      out_.rules[table].piece.held_to = until;
    }
    tables_.clear();
  }

  Operator& piece(std::size_t n) { return out_.operators[n]; }
  TensorRules& piece_rules(std::size_t n) { return out_.rules[n]; }

 protected:
  const model::OperatorGraph& graph_;
  const UnitOptions& options_;
  UnitPieces out_;
  std::vector<std::vector<std::size_t>> values_;  // by operator: the pieces that its results are
  std::map<std::uint32_t, std::vector<model::Saved>> parts_;  // by storage: what is in its place
  std::map<std::uint32_t, std::vector<std::size_t>> of_storage_;
  std::map<std::size_t, std::uint32_t> storage_of_;  // by piece: the one that its result is
  std::uint32_t next_storage_ = 1;
  std::vector<std::size_t> tables_;
};

}  // namespace stepcast::lower
