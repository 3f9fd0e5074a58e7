// Models of configs/ by the names that the Hugging Face Hub and other programs give them.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "stepcast/config/config.h"

namespace stepcast::config {
namespace {

// Letters and digits of the last part of a path, without what vendors and fine-tuned variants add.
std::string essence(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) {
    name.remove_prefix(slash + 1);
  }
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '.') {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  static constexpr std::array<std::string_view, 10> kWords = {
      "meta", "instruct", "chat", "base", "v0.1", "hf", "v0.3", "config", "nvidia", "bf16"};
  for (const auto word : kWords) {
    if (const auto at = out.find(word); at != std::string::npos) {
      out.erase(at, word.size());
    }
  }
  return out;
}

// Names under which the same sizes are known elsewhere.
struct Alias {
  std::string_view name;
  std::string_view model;
};
constexpr std::array<Alias, 39> kAliases = {{
    {"llama38b", "llama-3.1-8b"},           // torchtitan's flavour 8B: vocabulary 128256
    {"llama370b", "llama-3.1-70b"},         //
    {"llama3405b", "llama-3.1-405b"},       //
    {"llama27b", "llama-2-7b"},             //
    {"llama213b", "llama-2-13b"},           //
    {"llama270b", "llama-2-70b"},           //
    {"deepseekv3671b", "deepseek-v3"},      //
    {"deepseekv3671.0b", "deepseek-v3"},    //
    {"deepseekv316b", "deepseek-v2-lite"},  // torchtitan's 16B flavour has the sizes of V2-Lite
    {"deepseekv2236b", "deepseek-v2"},      //
    {"deepseekv3.1", "deepseek-v3"},        //
    {"gpt3175b", "gpt3-175b"},              //
    {"gpt3", "gpt3-175b"},                  //
    {"gpt2small", "gpt2"},                  //
    {"mixtral8x7b", "mixtral-8x7b"},        //
    {"mistral7b", "mistral-7b"},            //
    {"bertlarge", "bert-large"},            //
    {"bertlargeuncased", "bert-large"},     //
    {"gptj6b", "gpt-j-6b"},                 //
    {"nemotron4340b", "nemotron-4-340b"},   //
    {"llama65b", "llama-65b"},              //
    {"llama7b", "llama-7b"},                //
    {"phi1.51.3b", "phi-1.5"},              //
    {"tinyllama", "tiny-llama-1.1b"},       //
    {"phi3mini4k", "phi-3-mini"},           //
    {"phi414b", "phi-4"},                   //
    {"nemotronh56b8k", "nemotron-h-56b"},   //
    {"mistrallarge2407", "mistral-large-2-123b"},  //
    {"mistrallarge2411", "mistral-large-2-123b"},  //
    {"gemma31bpt", "gemma-3-1b"},                  //
    {"gemma31bit", "gemma-3-1b"},                  //
    // Later weights of the same architecture (aiconfigurator-core 0.12.0, model_configs).
    {"glm5.1", "glm-5"},                   //
    {"glm5.3", "glm-5.2"},                 //
    {"minimaxm2.7", "minimax-m2.5"},       //
    {"kimik2.6", "kimi-k2.5"},             //
    {"kimik2.7code", "kimi-k2.5"},         //
    {"qwen3.627b", "qwen3.5-27b"},         //
    {"qwen3.635ba3b", "qwen3.5-35b-a3b"},  //
    {"codellama27b", "code-llama-7b"},     // torchtune's code_llama2
}};

}  // namespace

std::optional<std::string> known_model(std::string_view name) {
  const auto known = list("models");
  const std::string wanted = essence(name);
  for (const std::string& model : known) {
    if (essence(model) == wanted) {
      return model;
    }
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == wanted && std::find(known.begin(), known.end(), alias.model) != known.end()) {
      return std::string(alias.model);
    }
  }
  return std::nullopt;
}

}  // namespace stepcast::config
