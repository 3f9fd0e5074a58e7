#include "norm_pieces.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using model::Operator;

class EagerNorm {
 public:
  EagerNorm(PieceWriter& writer, std::size_t i)
      : writer_(writer),
        i_(i),
        narrow_(writer.op(i).forward_output),
        wide_(writer.op(i).forward_temporary),
        trained_(writer.op(i).parameters > 0) {}

  std::size_t divide() {
    const bool casts = narrow_ < wide_;
    const bool weighs_wide = casts && writer_.rules(i_).promotion > 1;
    std::vector<std::size_t> from = writer_.read_by(i_);
    if (from.empty()) {
      from = {kOutsideUnit};
    }
    const std::size_t copy = casts ? make("cast", wide_, from) : kOutsideUnit;
    base_ = casts ? std::vector<std::size_t>{copy} : from;
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
    const auto& saved = writer_.op(i_).saved;
    const auto at =
        std::find_if(saved.begin(), saved.end(), [&](const auto& s) { return s.name == name; });
    return at == saved.end() ? nullptr : &*at;
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
      writer_.piece_rules(at).gradients = writer_.rules(i_).gradients;
      writer_.piece_rules(at).scratch = writer_.rules(i_).scratch;
    }
    return at;
  }

  PieceWriter& writer_;
  std::size_t i_;
  Bytes narrow_, wide_;
  bool trained_;
  std::vector<std::size_t> base_;  // what is scaled
  model::Saved input_;
};

}  // namespace

bool is_eager_norm(const PieceWriter& writer, std::size_t i) {
  const Operator& op = writer.op(i);
  const TensorRules& r = writer.rules(i);
  const auto keeps = [&](const char* name) {
    return std::any_of(op.saved.begin(), op.saved.end(),
                       [&](const model::Saved& s) { return s.name == name; });
  };
  return op.kind == model::OpKind::norm && op.forward_temporary.count() > 0 &&
         op.forward_output <= op.forward_temporary &&
         keeps(op.forward_output < op.forward_temporary ? "upcast" : "input") &&
         keeps("normed") == (op.parameters > 0) && writer.read_by(i).size() < 2 && r.forward == 0 &&
         r.backward == 0 && r.input_grad == 0 && r.kept == 0 && r.scatter.parts == 1 && !r.cast &&
         r.results.empty();
}

std::size_t divide_norm(PieceWriter& writer, std::size_t i) {
  return EagerNorm(writer, i).divide();
}

}  // namespace stepcast::lower
