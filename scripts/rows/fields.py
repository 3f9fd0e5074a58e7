"""A view of a row's JSON that answers "nothing" for everything that is not there."""
import decimal
import json

MAX_OF_ANYTHING = 1_000_000_000  # products of a few stay whole numbers
MAX_OF_THEM = 1_000_000          # ranks, stages, sequences
LONGEST_NUMBER = 400             # characters


class Malformed(ValueError):
    """A value is of another type than its key has, or beyond what a row can mean."""


class Number(str):
    """A number as its file spells it: 1e9 and 1000000000 are the same number, but not the same text."""


def _unique(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"duplicate key '{key}'")
        out[key] = value
    return out


def parse(text):
    """JSON with numbers as written. ValueError where it is none."""
    try:
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return value
    except RecursionError:
        raise ValueError("is nested too deeply") from None


class Field:
    __slots__ = ("value", "path")

    def __init__(self, value, path=""):
        self.value = value
        self.path = path

    def __getitem__(self, key):
        return Field(self.value.get(key) if isinstance(self.value, dict) else None, f"{self.path}.{key}".lstrip("."))

    def present(self):
        return self.value is not None

    def is_map(self):
        return isinstance(self.value, dict)

    def is_list(self):
        return isinstance(self.value, list)

    def is_text(self):
        return isinstance(self.value, str) and not isinstance(self.value, Number)

    def text(self):
        """The text or the number as written, true or false; "" when absent, null, or structured."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return str(self.value) if isinstance(self.value, str) else ""

    def texts(self):
        """Of a list: those of its items."""
        return [Field(item).text() for item in self.value] if self.is_list() else []

    def is_true(self):
        return self.text() == "true"

    def wrong(self, expected):
        if self.is_text() and self.value:
            return Malformed(f"{self.path}: the text '{self.value[:60]}' is not what is expected: {expected}")
        shown = self.text() or ("nothing" if self.value is None else "a list" if self.is_list() else "an object"
                                if self.is_map() else "an empty text")
        return Malformed(f"{self.path}: '{shown[:60]}' is not what is expected: {expected}")

    # Nothing when absent or null; Malformed when it is of another type, or out of range.
    def number(self):
        if self.value is None:
            return None
        if not isinstance(self.value, Number) or len(self.value) > LONGEST_NUMBER:
            raise self.wrong("a number")
        number = float(self.value)
        if number != number or number in (float("inf"), float("-inf")):
            raise self.wrong("a finite number")
        return number

    def integer(self, least=-MAX_OF_ANYTHING, most=MAX_OF_ANYTHING):
        number = self.number()
        if number is None:
            return None
        if not least <= number <= most:
            raise self.wrong(f"{least} to {most}")
        exact = decimal.Decimal(self.value)
        if exact != exact.to_integral_value():
            raise self.wrong("a whole number")
        return int(exact)

    def count(self):
        return self.integer(1, MAX_OF_THEM)

    def flag(self):
        if self.value is None or isinstance(self.value, bool):
            return self.value
        raise self.wrong("true or false")

    def integer_or(self, otherwise):
        found = self.integer()
        return otherwise if found is None else found

    def count_or(self, otherwise):
        found = self.count()
        return otherwise if found is None else found
