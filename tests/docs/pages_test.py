"""The reader of pages notices what is wrong with them: python3 tests/docs/pages_test.py"""
import unittest

import pages

TEXT = """# A page

<!-- file: job.yaml -->
```yaml
model: m
```

```console
$ simulate a \\
  --b
one
…
three
$ simulate c  # exit status 2
```

<!-- not run: needs a GPU -->
```sh
simulate d
```
"""


class Pages(unittest.TestCase):
    def test_blocks_and_commands(self):
        file, console, other = pages.blocks_of(TEXT)
        self.assertEqual((file.file, file.lines, file.not_run), ("job.yaml", ["model: m"], None))
        self.assertEqual(pages.commands_of(file), [])
        first, second = pages.commands_of(console)
        self.assertEqual((first.words, first.shown, first.status), ("simulate a   --b", ["one", "…", "three"], 0))
        self.assertEqual(TEXT.splitlines()[first.first:first.last], first.shown)
        self.assertEqual((second.shown, second.status), ([], 2))
        self.assertEqual(other.not_run, "needs a GPU")

    def test_output_that_is_shown_in_part(self):
        printed = ["a", "b", "c", "d"]
        for shown in (printed, ["a", "…"], ["…", "d"], ["a", "…", "c", "…"], ["…", "b", "c", "…"], ["a", "…", "d"]):
            self.assertIsNone(pages.differs(shown, printed), shown)
        for shown in (["a"], ["b", "…"], ["…", "c"], ["a", "…", "x", "…"], ["…", "c", "…", "b", "…"], ["a", "b", "c", "d", "e"]):
            self.assertIsNotNone(pages.differs(shown, printed), shown)

    def test_options_of_a_line(self):
        table = {"": {"--json"}, "search": {"--vary"}, "calibrate": set(), "calibrate nccl": {"--cluster"}}
        named = pages.options_named("FOO=1 simulate search x --vary a=b --json=- | simulate calibrate nccl --nodes 2", table)
        self.assertEqual(named, [("search", ["--vary", "--json"]), ("calibrate nccl", ["--nodes"])])


if __name__ == "__main__":
    unittest.main()
