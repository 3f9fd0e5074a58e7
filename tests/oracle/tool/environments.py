"""Virtual environments of the frameworks, and the null GPU built for the torch of each.

requirements/NAME.txt pins the packages of one environment. A file that begins with `# on: BASE` is installed beside BASE without
dependencies, so that several versions of a framework share one torch.
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
SOURCES = ("memory.c", "device.c", "work.c", "libraries.c")


class Environment:
    def __init__(self, name):
        self.name = name
        self.requirements = FOLDER / "requirements" / f"{name}.txt"
        first = self.requirements.read_text().splitlines()[0]
        on = re.match(r"# on: (\S+)", first)
        self.base = Environment(on.group(1)) if on else None
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
            else:
                subprocess.run([self.interpreter, "-m", "venv", self.folder], check=True)
            # DeepSpeed and flash-attn would compile CUDA kernels, which nothing here could run.
            without = {"DS_BUILD_OPS": "0", "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE", "FLASH_ATTENTION_FORCE_BUILD": "TRUE"}
            subprocess.run([*pip, "-r", self.requirements], check=True, env={**os.environ, **without}, stdout=sys.stderr)
            shutil.copy(self.requirements, stamp)
        library = self.null_gpu / "libnvidia-ml.so.1"
        newest = max(path.stat().st_mtime for path in (FOLDER / "nullgpu").iterdir())
        if not self.base and not (library.exists() and library.stat().st_mtime > newest):
            build_null_gpu(self.python, self.null_gpu)

    def variables(self):
        """Of a process in which torch finds the null GPU."""
        return {**os.environ, "LD_PRELOAD": str(self.null_gpu / "nullgpu.so"), "LD_LIBRARY_PATH": str(self.null_gpu),
                "PYTHONPATH": str(self.folder) if self.base else "", "NULLGPU_GIB": "1000", "OMP_NUM_THREADS": "1",
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


def build_null_gpu(python, out):
    """nullgpu.so, which is preloaded, and libcuda.so.1 and libnvidia-ml.so.1, which torch opens."""
    site = pathlib.Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], check=True,
                                       capture_output=True, text=True).stdout.strip())
    include = next(iter(sorted((site / "nvidia").glob("*/include/cuda_runtime_api.h"))), None)
    if include is None:
        sys.exit(f"oracle: {site} holds no CUDA headers: torch is not a build for CUDA")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    needed = symbols("--undefined-only", *(site / "torch" / "lib").glob("lib*.so"))
    build(out / "nullgpu.so", SOURCES, {n for n in needed if re.match(r"(__)?cuda[A-Z]|cublas", n)}, ["-ldl", "-lpthread"], include.parent)
    # The driver and NVML are asked by names that stand in this library. Of NVML nothing is real: it knows of no fabric.
    text = (site / "torch" / "lib" / "libc10_cuda.so").read_bytes()
    needed |= {name.decode() for name in re.findall(rb"(?<=\0)(?:cu|nvml)[A-Z]\w+(?=\0)", text)}
    build(out / "libcuda.so.1", ("driver.c",), {n for n in needed if re.match(r"cu[A-Z]", n) and not n.startswith("cuFile")},
          ["-Wl,-soname,libcuda.so.1"], include.parent)
    build(out / "libnvidia-ml.so.1", (), {n for n in needed if n.startswith("nvml")}, ["-Wl,-soname,libnvidia-ml.so.1"], include.parent)


def build(library, sources, needed, options, include):
    """Compiles the library twice: entry points that it lacks are added as functions that succeed and do nothing."""
    files = [FOLDER / "nullgpu" / source for source in sources]
    rest = library.parent / f"{library.name}.rest.c"
    rest.write_text("")
    for _ in range(2):
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-w", "-I", include, *files, rest, "-o", library, *options], check=True)
        lacking = sorted(needed - symbols("--defined-only", library))
        if not lacking:
            break
        rest.write_text("".join(f"__attribute__((weak)) int {name}(void) {{ return 0; }}\n" for name in lacking))


def symbols(which, *libraries):
    ran = subprocess.run(["nm", "-D", which, *libraries], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in ran.stdout.splitlines() if line and not line.endswith(":")}
