// A config.json during reading.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "field.h"
#include "stepcast/config/layer_letters.h"
#include "stepcast/job/job.h"

namespace stepcast::config {

// Reads keys and remembers which ones were read.
class Config {
 public:
  Config(Reader& reader, const Value& doc) : reader_(reader), doc_(doc) {}

  const Value* find(const std::string& key) {
    read_.insert(key);
    const Value* v = doc_.find(key);
    return v == nullptr || is_null(*v) ? nullptr : v;
  }
  const Value& doc() const { return doc_; }
  Reader& reader() { return reader_; }

  // Reads the value under the first of these names that exists; required unless there is a default.
  template <class I>
  void integer(I& out, std::initializer_list<const char*> names,
               std::optional<std::int64_t> absent = std::nullopt) {
    const char* primary = *names.begin();
    for (const char* name : names) {
      if (const Value* v = find(name)) {
        Reader::Scope scope(reader_, name);
        if (const auto x = read_integer(reader_, *v, absent ? 0 : 1, kWide)) {
          out = static_cast<I>(*x);
        }
        return;
      }
    }
    if (absent) {
      out = static_cast<I>(*absent);
      return;
    }
    reader_.fault(doc_, fmt::format("the config.json has no '{}'; expected an integer", primary));
  }

  bool boolean(const std::string& key, bool absent) {
    const Value* v = find(key);
    if (v == nullptr) {
      return absent;
    }
    return read_boolean(reader_, *v).value_or(absent);
  }

  double number(const std::string& key, double absent) {
    const Value* v = find(key);
    if (v == nullptr) {
      return absent;
    }
    return read_number(reader_, *v, 0, 0.999).value_or(absent);
  }

  std::string word(const std::string& key, std::string absent) {
    const Value* v = find(key);
    return v == nullptr ? absent : v->scalar;
  }

  // Reports a feature that is not modelled, at the key that switches it on.
  void refuse(const std::string& key, std::string_view what) {
    const Value* v = find(key);
    reader_.fault(v != nullptr ? v->origin : doc_.origin,
                  fmt::format("'{}' ({}) is not modelled", key, what));
  }

  // Reports a fault for each key that was not read and is not known to be harmless.
  void report_unknown();

  void seen(std::initializer_list<const char*> names) { read_.insert(names.begin(), names.end()); }

 private:
  Reader& reader_;
  const Value& doc_;
  std::set<std::string> read_;
};

struct Family {
  const char* model_type;
  void (*read)(Config&, job::Model&);
};

// Reads "sliding_attention" or "full_attention" for each layer; `absent`: the letters where there
// is no list.
void layer_types(Config& c, job::Model& m, std::string absent);
// Layers within a window and layers of all keys, by layer_types or `absent`; none where
// sliding_window is null. `window`: its keys where the file does not say.
void windows(Config& c, job::Model& m, std::int64_t window, std::string absent);
// Queries', keys', values' and the output projection's, by attention_bias.
void attention_biases(Config& c, job::Model& m, bool absent);
// Caps of scores and logits; `absent`: whether the family has them where the file does not say.
void softcaps(Config& c, job::Model& m, bool absent);
// Reads "dense" or "sparse" for each layer, where the file lists them.
void sparse_layers(Config& c, job::Model& m);

// What the modules of a model_type do otherwise than Llama's. huggingface_modules.cpp
job::Modules modules_of(const std::string& model_type);

// Every model_type that is modelled.
std::span<const Family> families();
// The families of one file each.
std::span<const Family> dense_families();    // huggingface_dense.cpp
std::span<const Family> expert_families();   // huggingface_experts.cpp
std::span<const Family> window_families();   // huggingface_windows.cpp
std::span<const Family> hybrid_families();   // huggingface_hybrids.cpp
std::span<const Family> stream_families();   // huggingface_streams.cpp
std::span<const Family> encoder_families();  // huggingface_encoders.cpp

// Shared by families.
void read_activation(Config& c, job::Model& m, const char* key, bool gated);
void llama_shapes(Config& c, job::Model& m, bool gated = true);
// GPT-2 has three dropout rates; the model has one.
void dropouts(Config& c, job::Model& m, std::initializer_list<const char*> names, double absent);
void qwen3(Config& c, job::Model& m);
void qwen_moe(Config& c, job::Model& m, bool shared);
void latent_attention(Config& c, job::Model& m);
void deepseek(Config& c, job::Model& m);
// `num_nextn_predict_layers` and its other names.
void prediction_layers(Config& c, job::Model& m, std::initializer_list<const char*> names);

// Reads a list of names or numbers, one per layer, as letters. Returns nothing when the key is
// absent.
struct Letter {
  const char* word;
  char letter;
};
std::optional<std::string> layer_letters(Config& c, const char* key,
                                         std::initializer_list<Letter> words);

}  // namespace stepcast::config
