// What of a model cannot be together, beside what its table's ranges say.
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "check.h"

namespace stepcast::config {
namespace {

using Add = std::function<void(std::string, std::string)>;

// Each letter needs what it names.
void mixers(const job::Model& m, const Add& no) {
  const auto has = [&](char letter) { return m.mixers.find(letter) != std::string::npos; };
  if (has('w') && m.sliding_window <= 0) {
    no("model.mixers", "mixers name window layers (w); expected a sliding_window");
  }
  if (has('l') && !m.linear) {
    no("model.mixers", "mixers name linear attention (l); expected its sizes under linear");
  }
  if (has('m') && !m.mamba) {
    no("model.mixers", "mixers name Mamba layers (m); expected their sizes under mamba");
  }
  if (m.mlps.find('e') != std::string::npos && !m.moe) {
    no("model.mlps", "mlps name experts (e); expected their sizes under moe");
  }
  const auto layers = static_cast<std::size_t>(m.layers);
  for (const auto& [key, letters] : {std::pair{"mixers", m.mixers}, {"mlps", m.mlps}}) {
    if (letters.size() > layers) {
      no(fmt::format("model.{}", key),
         fmt::format("{} has {} letters for {} layers; expected at most one a layer", key,
                     letters.size(), m.layers));
    }
  }
  if (m.mixers.find('-') == std::string::npos || m.mlps.find('-') == std::string::npos) {
    return;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    if (m.mixers[i % m.mixers.size()] == '-' && m.mlps[i % m.mlps.size()] == '-') {
      no("model.mlps",
         fmt::format("layer {} has neither a mixer nor an MLP; expected one of them", i));
      return;
    }
  }
}

void sizes(const job::Model& m, const Add& no) {
  const auto need = [&](bool there, const char* key) {
    if (!there) {
      no(fmt::format("model.{}", key),
         fmt::format("'model.{}' is missing; expected an integer", key));
    }
  };
  if (m.linear) {
    need(m.linear->key_heads > 0, "linear.key_heads");
    need(m.linear->value_heads > 0, "linear.value_heads");
    need(m.linear->key_dim > 0, "linear.key_dim");
    need(m.linear->value_dim > 0, "linear.value_dim");
    if (m.linear->key_heads > 0 && m.linear->value_heads % m.linear->key_heads != 0) {
      no("model.linear.value_heads",
         fmt::format("value_heads {} is not a multiple of key_heads {}; expected one",
                     m.linear->value_heads, m.linear->key_heads));
    }
  }
  if (m.mamba) {
    need(m.mamba->heads > 0, "mamba.heads");
    need(m.mamba->head_dim > 0, "mamba.head_dim");
    need(m.mamba->state > 0, "mamba.state");
    if (m.mamba->heads % m.mamba->groups != 0) {
      no("model.mamba.groups", fmt::format("groups {} does not divide heads {}; expected a divisor",
                                           m.mamba->groups, m.mamba->heads));
    }
  }
  if (m.indexer) {
    need(m.indexer->heads > 0, "indexer.heads");
    need(m.indexer->dim > 0, "indexer.dim");
    need(m.indexer->topk > 0, "indexer.topk");
  }
  if (m.window_heads) {
    const job::WindowHeads& w = *m.window_heads;
    need(w.heads > 0, "window_heads.heads");
    need(w.kv_heads > 0, "window_heads.kv_heads");
    need(w.head_dim > 0, "window_heads.head_dim");
    if (w.kv_heads > 0 && w.heads % w.kv_heads != 0) {
      no("model.window_heads.kv_heads",
         fmt::format("kv_heads {} does not divide heads {}; expected a divisor", w.kv_heads,
                     w.heads));
    }
  }
}

}  // namespace

std::vector<Infeasible> check_model(const job::Model& m) {
  std::vector<Infeasible> out;
  const Add no = [&](std::string key, std::string text) {
    out.push_back({std::move(key), std::move(text)});
  };
  sizes(m, no);
  mixers(m, no);
  if (m.encoder_layers > m.layers) {
    no("model.encoder_layers", fmt::format("encoder_layers {} is more than the {} layers; expected "
                                           "at most that",
                                           m.encoder_layers, m.layers));
  }
  if (m.encoder_layers > 0 && m.mtp_layers > 0) {
    no("model.mtp_layers", "prediction layers behind an encoder; expected 0");
  }
  if (m.chunked_window && m.sliding_window <= 0) {
    no("model.chunked_window", "chunked_window without a window; expected a sliding_window");
  }
  return out;
}

}  // namespace stepcast::config
