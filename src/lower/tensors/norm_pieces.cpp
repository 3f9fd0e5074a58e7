#include "norm_pieces.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using model::Operator;

// A norm, or that of queries or of keys where one operator stands for both.
struct NormPart {
  std::vector<std::size_t> from;  // the pieces that it reads
  Bytes narrow, wide;             // its result, and an fp32 copy of what it reads
  std::vector<model::Saved> saved;
  std::vector<std::int64_t> gradients;
  Scratch scratch;
};

NormPart whole_of(const PieceWriter& writer, std::size_t i) {
  const Operator& op = writer.op(i);
  std::vector<std::size_t> from = writer.read_by(i);
  if (from.empty()) {
    from = {kOutsideUnit};
  }
  return {std::move(from), op.forward_output,         op.forward_temporary,
          op.saved,        writer.rules(i).gradients, writer.rules(i).scratch};
}

// Of two tensors of each name, queries' and keys' in turn, those of number `n`.
std::vector<model::Saved> every_second(const std::vector<model::Saved>& saved, std::size_t n) {
  std::vector<model::Saved> out;
  for (std::size_t at = n; at < saved.size(); at += 2) {
    out.push_back(saved[at]);
  }
  return out;
}

NormPart part_of_two(const PieceWriter& writer, std::size_t i, std::size_t n) {
  const Operator& op = writer.op(i);
  const TensorRules& rules = writer.rules(i);
  const double queries = static_cast<double>(op.saved[0].bytes.count()) /
                         static_cast<double>((op.saved[0].bytes + op.saved[1].bytes).count());
  const auto cut = [&](std::int64_t bytes) {
    const std::int64_t first = part_of(bytes, queries);
    return n == 0 ? first : bytes - first;
  };
  NormPart out{{writer.read_by(i)[n]},
               Bytes(cut(op.forward_output.count())),
               Bytes(cut(op.forward_temporary.count())),
               every_second(op.saved, n),
               {},
               {}};
  if (rules.gradients.size() == 2) {
    out.gradients = {rules.gradients[n]};
  } else {
    for (const std::int64_t bytes : rules.gradients) {
      out.gradients.push_back(cut(bytes));
    }
  }
  for (const std::int64_t bytes : rules.scratch.works) {
    out.scratch.works.push_back(cut(bytes));
  }
  return out;
}

class EagerNorm {
 public:
  EagerNorm(PieceWriter& writer, std::size_t i, NormPart part)
      : writer_(writer),
        i_(i),
        part_(std::move(part)),
        narrow_(part_.narrow),
        wide_(part_.wide),
        trained_(writer.op(i).parameters > 0) {}

  std::size_t divide() {
    const bool casts = narrow_ < wide_;
    const bool weighs_wide = casts && writer_.rules(i_).promotion > 1;
    const std::size_t copy = casts ? make("cast", wide_, part_.from) : kOutsideUnit;
    base_ = casts ? std::vector<std::size_t>{copy} : part_.from;
    input_ = casts ? read_as("upcast", copy) : *saved_as("input");
    const std::size_t scaled = scale();
    std::size_t out = 0;
    if (weighs_wide) {
      const std::size_t weighed = weigh(wide_, scaled);
      out = make("result", narrow_, {weighed});
      // Both are temporaries of an expression, up to the weight's product.
      writer_.piece_rules(copy).piece.held_to = weighed;
    } else {
      const std::size_t back = casts ? make("cast back", narrow_, {scaled}) : scaled;
      out = weigh(narrow_, back);
      writer_.piece_rules(scaled).piece.held_to = casts ? out : 0;  // the function's variable
    }
    writer_.piece(out).kind = model::OpKind::norm;
    // What attention reads of normed queries and keys, rotated or not (model/attention.cpp). Copies
    // of queries that a norm of one kernel keeps go once they are cast.
    if (const model::Saved* read = saved_as("output")) {
      writer_.piece(out).saved.push_back(*read);
    }
    return out;
  }

 private:
  const model::Saved* saved_as(const char* name) const {
    const auto at = std::find_if(part_.saved.begin(), part_.saved.end(),
                                 [&](const auto& s) { return s.name == name; });
    return at == part_.saved.end() ? nullptr : &*at;
  }
  // The piece's result is what the operator keeps by a name; it is returned as what others read.
  model::Saved read_as(const char* name, std::size_t piece) {
    const std::uint32_t storage = writer_.own_part(saved_as(name)->storage, piece);
    return {"input", writer_.piece(piece).forward_output, storage};
  }

  std::size_t make(const char* name, Bytes result, const std::vector<std::size_t>& from) {
    const std::size_t at =
        writer_.add_elementwise(i_, i_, name, result, Operator::Gradient::own, from);
    writer_.piece(at).parameters = writer_.piece(at).frozen = 0;
    writer_.piece_rules(at).gradients.clear();
    writer_.piece_rules(at).scratch = {};
    return at;
  }

  // x / sqrt(mean(x^2)). Backward, the gradient of the mean square is spread over its row, beside
  // x^1 and its double; that of the factor is summed up from one as large as x.
  std::size_t scale() {
    const std::size_t square = make("square", wide_, base_);
    writer_.piece(square).saved = {input_};
    writer_.piece(square).backward_temporary = wide_ * 2;
    writer_.piece(square).largest_temporary = wide_;
    const std::size_t mean = make("mean", Bytes(0), {square});
    std::vector<std::size_t> factors = base_;
    factors.push_back(mean);
    const std::size_t scaled = make("scaled", wide_, factors);
    writer_.piece(scaled).saved = {input_};
    writer_.piece(scaled).backward_temporary = wide_;
    return scaled;
  }

  std::size_t weigh(Bytes result, std::size_t of) {
    const std::size_t at = make("weighed", result, {of});
    if (trained_) {
      writer_.piece(at).saved = {read_as("normed", of)};
      writer_.piece(at).backward_temporary = result;  // whose sum is the weight's gradient
      writer_.piece_rules(at).gradients = part_.gradients;
      writer_.piece_rules(at).scratch = part_.scratch;
    }
    return at;
  }

  PieceWriter& writer_;
  std::size_t i_;
  NormPart part_;
  Bytes narrow_, wide_;
  bool trained_;
  std::vector<std::size_t> base_;  // what is scaled
  model::Saved input_;
};

// A norm in Python that nothing surrounds but autograd.
bool stands_alone(const PieceWriter& writer, std::size_t i) {
  const Operator& op = writer.op(i);
  const TensorRules& r = writer.rules(i);
  const auto keeps = [&](const char* name) {
    return std::any_of(op.saved.begin(), op.saved.end(),
                       [&](const model::Saved& s) { return s.name == name; });
  };
  return op.kind == model::OpKind::norm && op.forward_temporary.count() > 0 &&
         op.forward_output <= op.forward_temporary &&
         keeps(op.forward_output < op.forward_temporary ? "upcast" : "input") &&
         keeps("normed") == (op.parameters > 0) && r.forward == 0 && r.backward == 0 &&
         r.input_grad == 0 && r.kept == 0 && r.scatter.parts == 1 && !r.cast;
}

}  // namespace

bool is_eager_norm(const PieceWriter& writer, std::size_t i) {
  return stands_alone(writer, i) && writer.read_by(i).size() < 2 && writer.rules(i).results.empty();
}

bool norms_two_products(const PieceWriter& writer, std::size_t i) {
  const auto& saved = writer.op(i).saved;
  const auto one_of_two = [&](std::size_t at) {
    return at % 2 == 1 ? saved[at].name == saved[at - 1].name
                       : at + 1 < saved.size() && saved[at + 1].name == saved[at].name;
  };
  bool pairs = !saved.empty();
  for (std::size_t at = 0; at < saved.size(); ++at) {
    pairs = pairs && one_of_two(at);
  }
  return pairs && stands_alone(writer, i) && writer.producers(i).size() == 1 &&
         writer.read_by(i).size() == 3;
}

std::size_t divide_norm(PieceWriter& writer, std::size_t i) {
  return EagerNorm(writer, i, whole_of(writer, i)).divide();
}

std::size_t divide_norm_of_two(PieceWriter& writer, std::size_t i, std::size_t n) {
  return EagerNorm(writer, i, part_of_two(writer, i, n)).divide();
}

}  // namespace stepcast::lower
