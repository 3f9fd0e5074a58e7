"""scripts/rows-to-jobs: reads files of rows, writes runs to standard output and what it left out to standard error."""
import argparse
import collections
import json
import pathlib
import sys

from . import fields
from .convert import run_of
from .skips import Skipped

DESCRIPTION = """Reads rows of published measurements (JSON lines) and writes each as a measured run, one JSON line, to standard
output. Standard error has a line for every row that is skipped, FILE:LINE: ID: KIND: DETAIL, one for every name that is not known
and what is taken for it (the first time), and a last line with counts. Exit status: 0, also with skipped rows; 2 for input that is
no JSON lines."""


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def lines_of(file):
    """(line number, text) of the lines that are not blank."""
    try:
        data = pathlib.Path(file).read_bytes()
    except OSError as error:
        fail(f"{file}:1: {error.strerror}; expected a readable text file")
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            fail(f"{file}:{number}: byte 0x{line[error.start]:02x} is not text; expected UTF-8")
        if text.strip(" \t\r"):
            yield number, text


def rows_of(file):
    for number, text in lines_of(file):
        try:
            yield number, fields.parse(text)
        except ValueError as error:
            fail(f"{file}:{number}: malformed JSON: {error}; expected one object a line")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="rows-to-jobs", description=DESCRIPTION)
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl", help="rows of published measurements")
    files = parser.parse_args(arguments).files
    rows = runs = 0
    skipped = collections.Counter()
    told = set()
    for file in files:
        for number, row in rows_of(file):
            rows += 1
            name = fields.Field(row)["id"].text() or "row without an id"
            try:
                run, remarks = run_of(row)
            except Skipped as why:
                skipped[why.kind] += 1
                print(f"{file}:{number}: {name}: {why.kind}: {one_line(why.detail)}".removesuffix(": "), file=sys.stderr)
                continue
            runs += 1
            print(json.dumps(run, ensure_ascii=False))
            for remark in remarks:
                if remark not in told:
                    told.add(remark)
                    print(f"{file}:{number}: {name}: note: {one_line(remark)}", file=sys.stderr)
    left_out = ", ".join(f"{kind} {count}" for kind, count in skipped.most_common())
    print(f"{rows} rows: {runs} runs, {skipped.total()} skipped" + (f" ({left_out})" if left_out else ""), file=sys.stderr)
    return 0


def one_line(text):
    return " ".join(text.split())
