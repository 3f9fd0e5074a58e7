// Recipes in Python: what is evaluated, what is said to be open, and that nothing damaged crashes.
#include "interop/launch/python/recipe.h"

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
  REQUIRE(r.remarks.size() == 1);
  CHECK(r.remarks[0].where.line == 12);
  REQUIRE(r.doubts.size() == 1);
  CHECK(r.doubts[0].shown == "kind");
  CHECK(r.doubts[0].origin.line == 11);
}

TEST_CASE("recipe: what a condition that is not known may set is in doubt until it is set again") {
  const Recipe r = read(
      "def recipe(cfg=Config(), size=4):\n"
      "    cfg.model.a = 1\n"
      "    other = cfg.model\n"
      "    if cfg.model.unknown:\n"
      "        cfg.model.a = 2\n"
      "        other.b = None\n"
      "        if size > 2:\n"
      "            cfg.model.c = 3\n"
      "    elif size == 4:\n"
      "        cfg.model.d = 4\n"
      "    else:\n"
      "        cfg.model.e = 5\n"
      "    if size >= 4:\n"
      "        cfg.model.f = 6\n"
      "    if size < 4 or size <= 3:\n"
      "        cfg.model.f = 7\n"
      "    width = 4\n"
      "    if cfg.model.unknown:\n"
      "        width = 8\n"
      "    cfg.model.g = width\n"
      "    cfg.model.c = 8\n"
      "    if cfg.model.unknown:\n"
      "        change(cfg)\n"
      "    return cfg\n");
  CHECK(value(r, "model.a") == "1");
  CHECK(value(r, "model.c") == "8");
  CHECK(value(r, "model.f") == "6");
  CHECK(value(r, "model.e").empty());
  CHECK(value(r, "model.g") == "open");
  std::vector<std::string> doubts;
  for (const Setting& s : r.doubts) {
    doubts.push_back(s.shown + (says_nothing(s) ? " off" : ""));
  }
  CHECK(doubts == std::vector<std::string>{"model.a", "model.b off", "model.d", "model.e"});
  REQUIRE(r.remarks.size() == 1);
  CHECK(r.remarks[0].where.line == 22);
}

TEST_CASE("recipe: what functions of other packages set is read, or said not to be") {
  const Recipe r = read(
      "def recipe():\n"
      "    cfg = Config()\n"
      "    cfg.model = cast(Provider, from_hub('a/b'))\n"
      "    cfg.model.backend = \"hybridep\"\n"
      "    apply_flex_dispatcher_backend(cfg.model, cfg.model.backend)\n"
      "    set_full_iteration_cuda_graph(cfg.model)\n"
      "    set_modules(cfg.model, [\"attn\"])\n"
      "    print(1)\n"
      "    change(cfg.model)\n"
      "    cfg.text = 1 if isinstance(None, Peft) else 2\n"
      "    return cfg\n");
  CHECK(value(r, "model") == "a/b");
  CHECK(value(r, "model.moe_token_dispatcher_type") == "flex");
  CHECK(value(r, "model.moe_flex_dispatcher_backend") == "hybridep");
  CHECK(value(r, "model.moe_shared_expert_overlap") == "false");
  CHECK(value(r, "model.cuda_graph_impl") == "full_iteration");
  CHECK(value(r, "model.modules") == "attn");
  CHECK(value(r, "text") == "2");
  REQUIRE(r.remarks.size() == 1);
  CHECK(r.remarks[0].where.line == 9);
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

TEST_CASE("recipe: only what counts is evaluated") {
  const Recipe r = read(
      "def _one(cfg):\n    cfg.one = 1\n    return 7\n"
      "def _count(n):\n    return 0 if n == 0 else _count(n - n)\n"
      "def recipe(fast=False):\n    cfg = Config()\n"
      "    cfg.a = _one(cfg) if fast else 3\n    cfg.b = 5 or _one(cfg)\n"
      "    if fast and _one(cfg):\n        cfg.c = 1\n    cfg.d = _count(4)\n"
      "    all = [x if x == 2 else 0 for x in [1, 2]]\n    cfg.e = all[1]\n"
      "    return cfg\n");
  CHECK(value(r, "a") == "3");
  CHECK(value(r, "b") == "5");
  CHECK(value(r, "d") == "0");
  CHECK(value(r, "e") == "2");
  CHECK(value(r, "one").empty());
}

TEST_CASE("recipe: values that are changed, parts that are set, attributes of several targets") {
  const Recipe r = read(
      "def recipe():\n    cfg = Config()\n    cfg.a = 3\n    cfg.a += 4\n    cfg.b *= 2\n"
      "    cfg.env = {\"x\": 1}\n    cfg.env[\"y\"] = 2\n    cfg.list = [1, 2]\n"
      "    cfg.list[0] = 3\n    cfg.optimizer, cfg.scheduler = pair(lr=1)\n    cfg.last = 9\n"
      "    cfg.got = cfg.env.get(\"y\", 5)\n    cfg.not_there = cfg.env.get(\"z\", 5)\n"
      "    return cfg\n");
  CHECK(value(r, "a") == "7");
  CHECK(value(r, "b") == "open");
  CHECK(value(r, "env.y") == "2");
  CHECK(value(r, "optimizer") == "pair");
  CHECK(value(r, "scheduler") == "pair");
  CHECK(value(r, "last") == "9");
  CHECK(value(r, "got") == "2");
  CHECK(value(r, "not_there") == "5");
  REQUIRE(r.remarks.size() == 1);
  CHECK(r.remarks[0].where.line == 9);
}

TEST_CASE("recipe: unpacked arguments, and those that are given by name alone") {
  const Recipe r = read(
      "def _base(a=1, *others, b=2, **more):\n"
      "    return Config(a=a, b=b, more=more)\n"
      "def _named(**given):\n    return _base(**{\"a\": 2, **given})\n"
      "def recipe():\n    known = {\"b\": 5}\n    cfg = Config()\n"
      "    cfg.one = _base(3, 4, 6)\n    cfg.two = _base(**{\"a\": 8, **known})\n"
      "    cfg.three = _base(**unknown)\n    cfg.four = _named()\n    cfg.five = _named(a=7, c=9)\n"
      "    some = dict(a=1)\n    some.update({\"a\": 4}, b=6)\n    cfg.six = _base(**some)\n"
      "    return cfg\n");
  CHECK(value(r, "one.a") == "3");
  CHECK(value(r, "one.b") == "2");
  CHECK(value(r, "two.a") == "8");
  CHECK(value(r, "two.b") == "5");
  CHECK(value(r, "three.a") == "open");
  CHECK(value(r, "three.b") == "open");
  CHECK(value(r, "four.a") == "2");
  CHECK(value(r, "five.a") == "7");
  CHECK(value(r, "five.more.c") == "9");
  CHECK(value(r, "six.a") == "4");
  CHECK(value(r, "six.b") == "6");
}

TEST_CASE("recipe: a text is no number, and what is not known may be in a list") {
  const Recipe r = read(
      "def recipe():\n    cfg = Config(a=1 if isinstance(3, str) else 2)\n"
      "    cfg.b = 1 if \"0\" else 2\n    cfg.c = 1 if \"1\" == 1 else 2\n"
      "    cfg.d = 1 if 3 in [f(x) + 1, 4] else 2\n    return cfg\n");
  CHECK(value(r, "a") == "2");
  CHECK(value(r, "b") == "1");
  CHECK(value(r, "c") == "2");
  CHECK(value(r, "d") == "open");
}

TEST_CASE("recipe: neither deep nor wide values take long, memory or the stack") {
  const auto repeat = [](const std::string& text, int times) {
    std::string out;
    for (int n = 0; n < times; ++n) {
      out += text;
    }
    return out;
  };
  const std::string head = "def recipe():\n    cfg = C()\n    a = [1]\n";
  for (const std::string& body :
       {repeat("    a = [*a, *a]\n", 60), repeat("    a = [a, a, a, a]\n", 60),
        repeat("    a = [a]\n", 30'000), repeat("    cfg = C(a=cfg)\n", 60'000),
        "    if " + repeat("not ", 1'000'000) + "a:\n        cfg.b = 1\n",
        "    b = " + repeat("1 if 0 else ", 190'000) + "3\n",
        "    cfg" + repeat(".a", 300'000) + " = 1\n",
        "    b = [1] * 9000\n    c = [b + b for x in b]\n    d = " + repeat("b + ", 100'000) +
            "b\n",
        "    b = '" + repeat("x", 1'000'000) + "'\n" + repeat("    cfg.c = b.lower()\n", 20'000),
        std::string("    cfg.n = -9223372036854775808 * 2\n")}) {
    try {
      read(head + body + "    d = {a: 1}\n    cfg.list = a\n    return cfg\n");
    } catch (const InputError&) {
    }
  }
  SUCCEED();
}

TEST_CASE("recipe: a name is that of the file that imports it, and circles of imports end") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / fmt::format("circles-{}", ::getpid());
  fs::create_directories(root);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(root / name) << text;
    return RecipeFile{text, (root / name).string()};
  };
  const RecipeFile circle = write("a.py", "from .b import x_config, SIZE\n");
  write("b.py", "from .a import x_config, SIZE\nfrom .c import _part\nONE = SIZE\n");
  write("c.py", "def _part():\n    return 3\nWIDTH = 5\n");
  write("d.py", "from .c import _part, WIDTH\n");
  CHECK_THROWS_AS(read_recipe({circle}, "x_config"), InputError);
  const RecipeFile given = write("e.py", "def _part():\n    return 4\n");
  const RecipeFile last = write(
      "f.py",
      "from .d import _part, WIDTH\ndef recipe():\n    return C(part=_part(), width=WIDTH)\n");
  const Recipe r = read_recipe({given, last}, "recipe");
  fs::remove_all(root);
  CHECK(value(r, "part") == "3");
  CHECK(value(r, "width") == "5");
}

TEST_CASE("recipe: a text with values in it is open") {
  const Recipe r = read(
      "def recipe():\n"
      "    cfg = C()\n"
      "    size = 8\n"
      "    cfg.name = f\"llama-{size}b\"\n"
      "    cfg.both = \"a\" f\"-{size}\"\n"
      "    cfg.plain = f\"llama\"\n"
      "    cfg.raw = r\"{size}\"\n"
      "    cfg.after = 3\n"
      "    return cfg\n");
  CHECK(value(r, "name") == "open");
  CHECK(value(r, "both") == "open");
  CHECK(value(r, "plain") == "llama");
  CHECK(value(r, "raw") == "{size}");
  CHECK(value(r, "after") == "3");
}

TEST_CASE("recipe: a bracket that nothing closes ends with its file") {
  for (const char* open : {"[", "[[", "[[[[", "([{", "f([[", "{[(", "[*[", "[x for x in [["}) {
    read(std::string("def recipe():\n    cfg = C()\n    cfg.a = ") + open + "1\n    return cfg\n");
    read(std::string("def recipe():\n    cfg = C()\n    cfg.a") + open);
  }
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
