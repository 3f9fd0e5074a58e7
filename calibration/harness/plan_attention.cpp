#include <algorithm>
#include <array>

#include "harness/plan.h"

namespace stepcast::harness {
namespace {

using interop::AttentionCase;

struct Heads {
  int all, kv;
};

// Tokens that a rank's micro-batch has at least, where sequences are short.
constexpr std::int64_t kTokens = 8192;

AttentionCase attention(const Abilities& on, std::int64_t sequences, std::int64_t length,
                        Heads heads, int head_dim, bool causal, bool backward) {
  AttentionCase c;
  if (on.amd) {
    c.kernel = "flash2";  // Composable Kernel's, which MIOpen runs
  }
  c.sequences = sequences;
  c.length = length;
  c.heads = heads.all;
  c.kv_heads = heads.kv;
  c.head_dim = head_dim;
  c.causal = causal;
  c.backward = backward;
  return c;
}

}  // namespace

std::vector<Strand> attention_strands(const Abilities& on, const PlanOptions& options) {
  if (!on.amd && on.compute_capability < 8.0) {
    return {};
  }
  constexpr std::array<std::int64_t, 8> kLengths = {1024,  2048,  4096,  8192,
                                                    16384, 32768, 65536, 131072};
  Strand common{.share = 10, .cases = {}};  // causal, size 128: what language models train with
  Strand others{.share = 6, .cases = {}};
  for (const std::int64_t length : kLengths) {
    for (const Heads heads :
         {Heads{32, 8}, Heads{32, 32}, Heads{8, 1}, Heads{64, 8}, Heads{16, 16}}) {
      for (const int size : {64, 128, 192}) {
        for (const bool causal : {true, false}) {
          for (const bool backward : {false, true}) {
            const bool usual = size == 128 && causal;
            const bool rare = heads.all != 32;
            if (!usual && rare && (!causal || length % 4096 != 0)) {
              continue;
            }
            Strand& strand = usual ? common : others;
            const std::int64_t sequences = std::max<std::int64_t>(1, kTokens / length);
            strand.cases.emplace_back(
                attention(on, sequences, length, heads, size, causal, backward));
            if (usual && sequences > 1 && heads.kv == 8) {
              strand.cases.emplace_back(attention(on, 1, length, heads, size, causal, backward));
            }
          }
        }
      }
    }
  }
  shuffle(common.cases, options.seed);
  shuffle(others.cases, options.seed);
  return {common, others};
}

}  // namespace stepcast::harness
