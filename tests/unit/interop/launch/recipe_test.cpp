// Recipes in Python: what is evaluated, what is said to be open, and that nothing damaged crashes.
#include "interop/launch/recipe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::interop::launch;

namespace {

Recipe read(const std::string& text, const std::string& function = "recipe") {
  return read_recipe({{text, "recipe.py"}}, function);
}

// The last value of a setting; "open" where it is no literal, "" where there is none.
std::string value(const Recipe& recipe, const std::string& name) {
  std::string out;
  for (const Setting& s : recipe.settings) {
    if (s.shown == name) {
      out = s.open.empty() ? plain_text(s.value) : "open";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("recipe: literals, formats and arithmetic of attributes") {
  const Recipe r = read(
      "LENGTH: int = 16 * 1024\n"
      "def recipe() -> Config:\n"
      "    \"\"\"Words, which are = nothing.\"\"\"\n"
      "    cfg = _common()  # of another module\n"
      "    cfg.model.tensor_model_parallel_size = 4\n"
      "    cfg.model.sequence_parallel = True\n"
      "    cfg.model.pipeline_dtype = torch.bfloat16\n"
      "    cfg.model.layout = None\n"
      "    cfg.dataset.seq_length = LENGTH\n"
      "    cfg.optimizer.lr = 3e-4\n"
      "    cfg.model.modules = [\n        \"core_attn\",\n        'mlp',\n    ]\n"
      "    cfg.logger.dir = os.path.join(base, \"logs\") + suffix\n"
      "    cfg.mixed_precision = bf16_mixed()\n"
      "    return cfg\n");
  CHECK(value(r, "model.tensor_model_parallel_size") == "4");
  CHECK(value(r, "model.sequence_parallel") == "true");
  CHECK(value(r, "model.pipeline_dtype") == "bf16");
  CHECK(value(r, "model.layout") == "null");
  CHECK(value(r, "dataset.seq_length") == "16384");
  CHECK(value(r, "optimizer.lr") == "3e-4");
  CHECK(value(r, "model.modules") == "core_attn mlp");
  CHECK(value(r, "logger.dir") == "open");
  CHECK(value(r, "mixed_precision") == "bf16_mixed");
  CHECK(r.remarks.empty());
}

TEST_CASE("recipe: a setting's place is its assignment's") {
  const Recipe r = read("def recipe():\n    cfg = Config()\n    cfg.a.b = 7\n    return cfg\n");
  REQUIRE(r.settings.size() == 1);
  CHECK(to_string(r.settings[0].origin) == "recipe.py:3:5");
}

TEST_CASE("recipe: own functions are called with their arguments and defaults") {
  const Recipe r = read(
      "def trainer(tensor: int = 2, nodes=1, plugins=None):\n"
      "    strategy = run.Config(Strategy, tensor_size=tensor, context_size=2)\n"
      "    return run.Config(nl.Trainer, num_nodes=nodes, strategy=strategy, plugins=plugins)\n"
      "def recipe(num_nodes: int = 4, fast: bool = False):\n"
      "    out = run.Partial(fn, trainer=trainer(nodes=num_nodes), model=run.Config(Llama70B))\n"
      "    if fast:\n"
      "        out.trainer.strategy.context_size = 8\n"
      "    return out\n");
  CHECK(value(r, "trainer.num_nodes") == "4");
  CHECK(value(r, "trainer.strategy.tensor_size") == "2");
  CHECK(value(r, "trainer.strategy.context_size") == "2");
  CHECK(value(r, "trainer.plugins") == "null");
  CHECK(value(r, "model") == "Llama70B");
}

TEST_CASE("recipe: conditions that are literals choose, others are said to be open") {
  const Recipe r = read(
      "def recipe(scheme=\"LoRA\", nodes=None, size=None):\n"
      "    cfg = Config()\n"
      "    if scheme is None or scheme.lower() == 'none':\n"
      "        cfg.kind = 1\n"
      "    elif isinstance(scheme, str) and scheme.lower() in [\"lora\", \"dora\"]:\n"
      "        cfg.kind = 2\n"
      "    else:\n"
      "        cfg.kind = 3\n"
      "    cfg.nodes = 8 if nodes is None else 16\n"
      "    if torch.cuda.is_available():\n"
      "        cfg.kind = 4\n"
      "    for one in cfg.list:\n"
      "        cfg.kind = 5\n"
      "    return cfg\n");
  CHECK(value(r, "kind") == "2");
  CHECK(value(r, "nodes") == "8");
  REQUIRE(r.remarks.size() == 2);
  CHECK(r.remarks[0].where.line == 10);
  CHECK(r.remarks[1].where.line == 12);
}

TEST_CASE("recipe: objects are shared, and a method of another module gives its object back") {
  const Recipe r = read(
      "def recipe():\n"
      "    cfg = Config()\n"
      "    adapters = make(\"lora\")\n"
      "    cfg.peft = adapters\n"
      "    adapters.dim = 8\n"
      "    cfg.model = AutoBridge.from_hf_pretrained(\"org/Model-8B\").to_provider(load=False)\n"
      "    cfg.model.seq_length = 4096\n"
      "    return cfg\n");
  CHECK(value(r, "peft") == "lora");
  CHECK(value(r, "peft.dim") == "8");
  CHECK(value(r, "model") == "org/Model-8B");
  CHECK(value(r, "model.seq_length") == "4096");
}

TEST_CASE("recipe: a function that is not there is a fault that names those that are") {
  const std::string text =
      "def one():\n    return C()\ndef _own():\n    pass\ndef two():\n    pass\n";
  try {
    read(text, "three");
    FAIL("no fault");
  } catch (const InputError& e) {
    CHECK_THAT(e.what(), ContainsSubstring("'three' is no function"));
    CHECK_THAT(e.what(), ContainsSubstring("one | two"));
  }
  CHECK_THROWS_AS(read("def recipe():\n    return recipe()\n"), InputError);  // without an end
}

TEST_CASE("recipe: dictionaries, lists and the order of their signs") {
  const Recipe r = read(
      "def _layout(pp, vp):\n"
      "    tail = [\"mtp\"] * (getattr(pp, \"none\", 0) or 1) + [\"loss\"]\n"
      "    known = {\n        (1, 1): None,\n        (2, 1): [[\"embedding\"] + [\"decoder\"] * 2, "
      "[\"decoder\"] + tail],\n    }\n"
      "    if (pp, vp) not in known:\n        return \"none\"\n"
      "    layout = known[(pp, vp)]\n"
      "    if layout is not None:\n        layout = list([list(x) for x in layout])\n"
      "    return layout\n"
      "def recipe():\n    cfg = Config(a=2 + 3 * 4)\n"
      "    cfg.one = _layout(1, 1)\n    cfg.two = _layout(2, 1)\n    cfg.three = _layout(3, 1)\n"
      "    cfg.size = cfg.one or 7\n"
      "    cfg.all = [*cfg.two[1], \"end\"]\n"
      "    first, second = pair()\n    cfg.optimizer = first\n"
      "    small, large = (3, 5)\n    cfg.large = large\n"
      "    return cfg\n");
  CHECK(value(r, "a") == "14");
  CHECK(value(r, "one") == "null");
  CHECK(value(r, "three") == "none");
  CHECK(value(r, "size") == "7");
  CHECK(value(r, "optimizer") == "pair");
  CHECK(value(r, "large") == "5");
  const auto items = [&](const std::string& name) {
    for (const Setting& s : r.settings) {
      if (s.shown == name) {
        return s.value.items;
      }
    }
    return std::vector<Value>();
  };
  REQUIRE(items("two").size() == 2);
  CHECK(items("two")[0].items.size() == 3);
  CHECK(items("two")[1].items.size() == 3);
  CHECK(items("all").size() == 4);
}

TEST_CASE(
    "recipe: what is called changes what it is given, and setters what they are named after") {
  const Recipe r = read(
      "def _common(cfg):\n    cfg.train.size = 8\n    if hasattr(cfg.train, \"size\"):\n"
      "        cfg.found = True\n"
      "def recipe():\n    cfg = Config(train=Train())\n    _common(cfg)\n"
      "    set_graph_modules(cfg.train, [\"attn\"])\n"
      "    cfg.precision = bf16_mixed()\n    cfg.precision.reduce = False\n    return cfg\n");
  CHECK(value(r, "train.size") == "8");
  CHECK(value(r, "found") == "true");
  CHECK(value(r, "train.graph_modules") != "");
  CHECK(value(r, "precision") == "bf16_mixed");
  CHECK(value(r, "precision.reduce") == "false");
}

TEST_CASE("recipe: recipes of a package are followed into the files that they import") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / fmt::format("recipes-{}", ::getpid());
  fs::create_directories(root / "pack/recipes/llama");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(root / name) << text;
  };
  write("pack/recipes/common.py",
        "LENGTH = 4096\ndef _base():\n    cfg = Config(model=None)\n    cfg.seq = LENGTH\n"
        "    cfg.data = 1\n    return cfg\ndef _helper():\n    return 1\n");
  write(
      "pack/recipes/llama/base.py",
      "from pack.recipes.common import _base, LENGTH\nfrom pack.training import bf16_mixed\n"
      "def _helper():\n    return 2\ndef llama_8gpu_config():\n    cfg = _base()\n"
      "    cfg.helper = _helper()\n    cfg.length = LENGTH * 2\n    cfg.precision = bf16_mixed()\n"
      "    return cfg\n");
  const std::string text =
      "from .base import (\n    llama_8gpu_config as llama_config,\n)\n"
      "from pack.recipes.missing import other_config\n"
      "def recipe():\n    cfg = llama_config()\n    cfg.model = \"org/Model\"\n"
      "    cfg.other = other_config()\n    return cfg\n";
  const Recipe r = read_recipe({{text, (root / "pack/recipes/llama/perf.py").string()}}, "recipe");
  fs::remove_all(root);
  CHECK(value(r, "model") == "org/Model");
  CHECK(value(r, "seq") == "4096");
  CHECK(value(r, "length") == "8192");
  CHECK(value(r, "helper") == "2");  // each file has its own functions
  CHECK(value(r, "data") == "1");
  CHECK(value(r, "precision") == "bf16_mixed");  // known by its name
  CHECK(value(r, "other") == "other_config");
}

TEST_CASE("recipe: damaged source is read or a fault") {
  const std::string text =
      "A = 3\ndef f(x=[1, (2, 3)], *y, **z):\n    c = C(a=1, b=g(2)[3], **z)\n    if not x and "
      "(A == 3):\n        c.d = -1 if x else {1: 2}\n    return c\ndef recipe(): return f()\n"
      "def recipe():\n    return f(x=\"a\\\"b\" 'c')\n";
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'(', ']', '\n', '"', '.', '=', ' ', ':'}) {
      std::string damaged = text;
      damaged[at] = c;
      try {
        read(damaged);
      } catch (const InputError&) {
      }
      try {
        read(text.substr(0, at));
      } catch (const InputError&) {
      }
    }
  }
}
