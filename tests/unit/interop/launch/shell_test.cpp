// Launch scripts that use plain shell.
#include "interop/launch/shell/shell.h"

#include "catch.hpp"

using stepcast::InputError;
using stepcast::to_string;
using namespace stepcast::interop::launch;

namespace {

std::string text_of(const std::vector<Word>& words) {
  std::string out;
  for (const Word& word : words) {
    out += out.empty() ? "" : " ";
    out += word.text;
    for (const std::string& open : word.open) {
      out += "<" + open + ">";
    }
  }
  return out;
}

std::string words_of(const std::string& script, const std::vector<std::string>& variables = {}) {
  return text_of(run_script(script, "train.sh", variables).words);
}

}  // namespace

TEST_CASE("Variables, arrays and continued lines expand where the command uses them") {
  CHECK(words_of("TP=8\n"
                 "ARGS=(\n"
                 "  --tensor $TP   # in use\n"
                 "  --name \"a b\"\n"
                 ")\n"
                 "torchrun --nnodes 2 \\\n"
                 "  train.py ${ARGS[@]} --end\n") ==
        "torchrun --nnodes 2 train.py --tensor 8 --name a b --end");
  CHECK(words_of("OPTS=\" \\\n  --a 1 \\\n  --b 2\"\npython train.py $OPTS\n") ==
        "python train.py --a 1 --b 2");
  CHECK(words_of("A=\"--x 1\"\nA=\"$A --y 2\"\nA+=\" --z 3\"\npython train.py ${A}\n") ==
        "python train.py --x 1 --y 2 --z 3");
  CHECK(words_of("A=(--x 1)\nA+=(--y 2)\npython train.py \"${A[@]}\"\n") ==
        "python train.py --x 1 --y 2");
  CHECK(words_of("export N=4 M='$N'\npython train.py --n $N --m $M\n") ==
        "python train.py --n 4 --m $N");
}

TEST_CASE("Defaults, sums and variables from outside") {
  CHECK(words_of("python t.py --n ${N:-8} --m ${1:-3}\n") == "python t.py --n 8 --m 3");
  CHECK(words_of("N=2\npython t.py --n ${N:-8}\n") == "python t.py --n 2");
  CHECK(words_of("python t.py --n ${N:-8}\n", {"N=5"}) == "python t.py --n 5");
  CHECK(words_of("G=8\nN=$(($G * (2 + 1)))\npython t.py --n $N --k $((G%3))\n") ==
        "python t.py --n 24 --k 2");
  CHECK(words_of("python t.py --n $N --h $(hostname)\n") ==
        "python t.py --n <N> --h <$(hostname)>");
  CHECK(
      words_of("N=$(nvidia-smi --list-gpus | wc -l)\npython t.py --n $N --m `date +%s` --k 1\n") ==
      "python t.py --n <$(nvidia-smi --list-gpus | wc -l)> --m <`date +%s`> --k 1");
  CHECK(words_of("python t.py --n $((M*2))\n") == "python t.py --n <$((M*2))>");
  CHECK(words_of("A=-1\npython t.py --n $((A + 3)) --m $((4 - -A * 2)) --k $((- (2 - 5)))\n") ==
        "python t.py --n 2 --m 2 --k 3");
  std::string sum = "A=1\npython t.py --n $((0";
  for (int i = 0; i < 100; ++i) {
    sum += "+A";
  }
  CHECK(words_of(sum + "))\n") == "python t.py --n 100");
}

TEST_CASE("Conditions that can be decided are; the others are said") {
  const std::string script =
      "if [ \"$MODE\" = \"big\" ]; then\n  H=8192\nelif [[ $MODE == mid ]]; then\n  H=4096\nelse\n "
      " H=1024\nfi\n"
      "[ -z \"$E\" ] && E=7\n"
      "python t.py --h $H --e $E\n";
  CHECK(words_of(script) == "python t.py --h 1024 --e 7");
  CHECK(words_of(script, {"MODE=big"}) == "python t.py --h 8192 --e 7");
  CHECK(words_of(script, {"MODE=mid", "E=9"}) == "python t.py --h 4096 --e 9");
  CHECK(words_of(
            "N=3\nif [ $N -gt 2 ] && [ $N -lt 9 ]; then A=1; else A=0; fi\npython t.py --a $A\n") ==
        "python t.py --a 1");

  const Script undecided =
      run_script("A=0\nif [ -f data ]; then A=1; fi\npython t.py --a $A\n", "train.sh", {});
  CHECK(text_of(undecided.words) == "python t.py --a 0");
  REQUIRE(undecided.remarks.size() == 1);
  CHECK(to_string(undecided.remarks[0].where) == "train.sh:2:1");
  CHECK(undecided.remarks[0].message ==
        "a condition of the script is not evaluated and counts as false");

  const Script loop = run_script(
      "for i in 1 2; do\n  python x.py --i $i\ndone\npython t.py --a 1\n", "train.sh", {});
  CHECK(text_of(loop.words) == "python t.py --a 1");
  CHECK(loop.remarks.size() == 1);
}

TEST_CASE("Texts as input of commands are no commands") {
  CHECK(words_of("read A B <<< \"1 2\"\npython t.py --n 2\n") == "python t.py --n 2");
  CHECK(words_of("cat <<EOF\npython t.py --n 1 --m 1\nEOF\npython t.py --n 2\n") ==
        "python t.py --n 2");
  CHECK(words_of("python t.py --n 2 <<< text\n") == "python t.py --n 2");
}

TEST_CASE("The command that trains is found in what surrounds it") {
  CHECK(
      words_of("mkdir -p out\necho \"python x.py --no\"\npython t.py --a 1 2>&1 | tee log.txt\n") ==
      "python t.py --a 1");
  CHECK(words_of("CMD=\"torchrun t.py --a 1\"\necho $CMD\neval $CMD\n") ==
        "eval torchrun t.py --a 1");
  CHECK(words_of("srun bash -c \"python t.py --a 1\"\n") == "srun bash -c python t.py --a 1");
  CHECK(words_of("cat <<EOT > f.json\npython wrong.py --x 1\nEOT\npython t.py --a 1\n") ==
        "python t.py --a 1");
  // A script that only sets options for another one.
  CHECK(words_of("TP=2\nbase=\"--seq 8\"\noptions=\"--tensor $TP $base\"\n") ==
        "--tensor 2 --seq 8");
  const Script two =
      run_script("python prepare.py --in x\npython t.py --a 1 --b 2\n", "train.sh", {});
  CHECK(text_of(two.words) == "python t.py --a 1 --b 2");
  REQUIRE(two.remarks.size() == 1);
  CHECK(two.remarks[0].message == "another program of the script: its options are left out");
}

TEST_CASE("Every word knows where it was written") {
  const Script script = run_script(
      "ARGS=(\n  --a 1\n  --b 2\n)\npython t.py ${ARGS[@]} \\\n  --c 3\n", "train.sh", {});
  const auto place = [&](std::size_t i) { return to_string(script.words.at(i).origin); };
  CHECK(place(2) == "train.sh:2:3");
  CHECK(place(4) == "train.sh:3:3");
  CHECK(place(6) == "train.sh:6:3");
}

TEST_CASE("A broken script is a fault with its place, whatever its bytes") {
  CHECK_THROWS_AS(run_script("A=\"open\n", "train.sh", {}), InputError);
  CHECK_THROWS_AS(run_script("A=(1 2\n", "train.sh", {}), InputError);
  CHECK_THROWS_AS(run_script("echo ${A\n", "train.sh", {}), InputError);
  std::string doubling = "A=12345678\n";
  std::string nested = "A=";
  for (int i = 0; i < 100; ++i) {
    doubling += "A=$A$A\n";
    nested += "${B:-";
  }
  CHECK_THROWS_AS(run_script(doubling, "train.sh", {}), InputError);
  CHECK_THROWS_AS(run_script(nested + std::string(100, '}') + "\n", "train.sh", {}), InputError);
  for (const char* odd : {"", ";;", "fi", "done\n)", "if", "if [", "case x in", "&& ||", "$", "\\",
                          "A=", "((", "}{"}) {
    INFO(odd);
    try {
      run_script(odd, "train.sh", {});
    } catch (const InputError& error) {
      CHECK(error.faults().size() == 1);
    }
  }
}

TEST_CASE("Files of flags bear stray quotes and left-overs of a script") {
  const auto words =
      read_flags("--a 1\"\nfi\n  --b \"x y\" \\\n--c $C\n# --d 4\n", "f.args", {"C=7"});
  CHECK(text_of(words) == "--a 1 --b x y --c 7");
  CHECK(to_string(words.front().origin) == "f.args:1:1");
}

TEST_CASE("Flags take the values up to the next flag") {
  const auto settings = settings_of(
      run_script("python t.py --list 1 2 3 --on --x=5 --neg -1 -v --under_score a\n", "t.sh", {})
          .words,
      false);
  REQUIRE(settings.size() == 6);
  CHECK(settings[0].name == "list");
  CHECK(plain_text(settings[0].value) == "1 2 3");
  CHECK(settings[1].name == "on");
  CHECK(plain_text(settings[1].value).empty());
  CHECK(plain_text(settings[2].value) == "5");
  CHECK(plain_text(settings[3].value) == "-1");
  CHECK(settings[4].name == "v");
  CHECK(settings[5].name == "under-score");
  CHECK(settings[5].shown == "--under_score");
}
