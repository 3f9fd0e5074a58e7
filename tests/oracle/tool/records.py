"""What frameworks were seen to do: recorded/NAME.json for each cases/NAME.yaml, one case a line."""
import datetime
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "recorded"


def read(stem):
    path = FOLDER / f"{stem}.json"
    return json.loads(path.read_text()) if path.exists() else {"versions": {}, "date": "", "cases": {}}


def write(stem, versions, results, known):
    """Puts the results of cases into the file, and drops cases that are no longer stated."""
    old = read(stem)
    cases = {name: result for name, result in {**old["cases"], **results}.items() if name in known}
    line = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":"))
    rows = ",\n".join(f"{json.dumps(name)}:{line(cases[name])}" for name in sorted(cases))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{stem}.json").write_text(f'{{"versions":{line(versions)},\n"date":"{datetime.date.today().isoformat()}",\n"cases":{{\n{rows}\n}}}}\n')
