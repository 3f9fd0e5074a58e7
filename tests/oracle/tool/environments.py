"""Virtual environments of the frameworks, and the null GPU built for the torch of each.

requirements/NAME.txt pins the packages of one environment. A file that begins with `# on: BASE` is installed beside BASE without
dependencies, so that several versions of a framework share one torch; with `# on: BASE, wheels of: 3.12` those for that Python, whose
sources an older one runs as well.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent
BUILD = FOLDER.parent.parent / "build" / "oracle"
sys.path.insert(0, str(FOLDER.parent.parent / "src" / "capture" / "recorder"))
import null_gpu  # noqa: E402
from catalogue import NULL_GPU_GIB  # noqa: E402


class Environment:
    def __init__(self, name):
        self.name = name
        self.requirements = FOLDER / "requirements" / f"{name}.txt"
        first = self.requirements.read_text().splitlines()[0]
        on = re.match(r"# on: ([^\s,]+)(?:, wheels of: (\S+))?", first)
        self.base = Environment(on.group(1)) if on else None
        self.wheels_of = on.group(2) if on else None
        version = re.match(r"# python: (\S+)", first)
        self.interpreter = f"python{version.group(1)}" if version else sys.executable
        self.folder = BUILD / "environments" / name
        self.python = self.base.python if self.base else self.folder / "bin" / "python"
        self.null_gpu = self.base.null_gpu if self.base else self.folder / "nullgpu"

    def make(self):
        """Does nothing where what the file of requirements says is installed already."""
        if self.base:
            self.base.make()
        stamp = self.folder / "requirements.txt"
        if not stamp.exists() or stamp.read_text() != self.requirements.read_text():
            print(f"oracle: installing {self.name}", file=sys.stderr, flush=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if self.base:
                pip += ["--no-deps", "--no-build-isolation", "--target", self.folder]
                pip += ["--python-version", self.wheels_of, "--only-binary=:all:", "--ignore-requires-python"] if self.wheels_of else []
            else:
                subprocess.run([self.interpreter, "-m", "venv", self.folder], check=True)
            # DeepSpeed and flash-attn would compile CUDA kernels, which nothing here could run.
            without = {"DS_BUILD_OPS": "0", "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE", "FLASH_ATTENTION_FORCE_BUILD": "TRUE"}
            subprocess.run([*pip, "-r", self.requirements], check=True, env={**os.environ, **without}, stdout=sys.stderr)
            shutil.copy(self.requirements, stamp)
        library = self.null_gpu / "libnvidia-ml.so.1"
        newest = max(path.stat().st_mtime for path in null_gpu.FOLDER.iterdir())
        if not self.base and not (library.exists() and library.stat().st_mtime > newest):
            null_gpu.build(self.python, self.null_gpu)

    def variables(self):
        """Of a process in which torch finds the null GPU."""
        compiled = {"TORCHINDUCTOR_COMPILE_THREADS": "1",  # in the process of the case, where the null GPU is
                    "TORCHINDUCTOR_CACHE_DIR": str(BUILD / "inductor"), "TRITON_CACHE_DIR": str(BUILD / "triton"),
                    "TRITON_DEFAULT_FP_FUSION": "1"}  # its default, which Triton 3.9 warns that 3.10 will change
        return {**os.environ, **compiled, "LD_PRELOAD": null_gpu.preloaded(self.null_gpu), "LD_LIBRARY_PATH": str(self.null_gpu),
                "PYTHONPATH": str(self.folder) if self.base else "", "NULLGPU_GIB": str(NULL_GPU_GIB), "OMP_NUM_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

    def versions(self):
        """{package: version} of what the file of requirements pins, as it is installed."""
        names = [re.split(r"[=<>@ \[]", line)[0] for file in ([self.base.requirements] if self.base else []) + [self.requirements]
                 for line in file.read_text().splitlines() if line and not line.startswith("#")]
        script = ("import importlib.metadata as m, json, sys\n"
                  "def version(n):\n try: return m.version(n)\n except m.PackageNotFoundError: return None\n"
                  "print(json.dumps({n: version(n) for n in sys.argv[1:]}))")
        ran = subprocess.run([self.python, "-c", script, *names], check=True, capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": str(self.folder) if self.base else ""})
        return {n: v for n, v in json.loads(ran.stdout).items() if v}

