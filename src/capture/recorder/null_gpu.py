"""The null GPU built for the torch of one Python: what that torch links to decides which entry points it must have."""
import pathlib
import re
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "nullgpu"
SOURCES = ("memory.c", "device.c", "work.c", "libraries.c", "nccl.c", "log.c")
# cuBLAS calls that launch a kernel begin with the handle, which knows the stream; the others set or ask.
PRODUCT = re.compile(r"cublas(?!Lt|Set|Get|Create|Destroy)[A-Z]")


def build(python, out):
    """nullgpu.so and libnvrtc, which are preloaded, and libcuda.so.1 and libnvidia-ml.so.1, which torch opens."""
    site = pathlib.Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], check=True,
                                       capture_output=True, text=True).stdout.strip())
    include = next(iter(sorted((site / "nvidia").glob("*/include/cuda_runtime_api.h"))), None)
    if include is None:
        sys.exit(f"capture: {site} holds no CUDA headers: torch is not there, or not a build for CUDA from pip")
    out = pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    needed = symbols("--undefined-only", *(site / "torch" / "lib").glob("lib*.so"))
    make(out / "nullgpu.so", SOURCES, {n for n in needed if re.match(r"(__)?cuda[A-Z]|cublas|nccl[A-Z]", n)}, ["-ldl", "-lpthread"],
         include.parent)
    # torch opens NVRTC by its name, beside its own libraries first: one of that name which is there already is taken.
    for real in (site / "nvidia").glob("*/lib/libnvrtc.so.*"):
        make(out / real.name, ("nvrtc.c",), {n for n in needed if re.match(r"nvrtc[A-Z]", n)}, [f"-Wl,-soname,{real.name}"],
             include.parent)
    # The driver and NVML are asked by names that stand in this library. Of NVML nothing is real: it knows of no fabric.
    text = (site / "torch" / "lib" / "libc10_cuda.so").read_bytes()
    needed |= {name.decode() for name in re.findall(rb"(?<=\0)(?:cu|nvml)[A-Z]\w+(?=\0)", text)}
    for driver in (site / "triton").glob("backends/nvidia/driver.c"):  # Triton compiles it when the first kernel is
        needed |= set(re.findall(r"\bcu[A-Z]\w+(?=\()", driver.read_text()))
    make(out / "libcuda.so.1", ("driver.c",), {n for n in needed if re.match(r"cu[A-Z]", n) and not n.startswith("cuFile")},
         ["-Wl,-soname,libcuda.so.1"], include.parent)
    make(out / "libnvidia-ml.so.1", (), {n for n in needed if n.startswith("nvml")}, ["-Wl,-soname,libnvidia-ml.so.1"], include.parent)


def preloaded(folder):
    """The value of LD_PRELOAD."""
    return ":".join(map(str, [folder / "nullgpu.so", *sorted(folder.glob("libnvrtc.so.*[0-9]"))]))


def make(library, sources, needed, options, include):
    """Compiles the library twice: entry points that it lacks are added as functions that succeed and do nothing but launch."""
    files = [FOLDER / source for source in sources]
    rest = library.parent / f"{library.name}.rest.c"
    rest.write_text("")
    for _ in range(2):
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-w", "-I", include, *files, rest, "-o", library, *options], check=True)
        lacking = sorted(needed - symbols("--defined-only", library))
        if not lacking:
            break
        rest.write_text("int nullgpu_product(void*);\n" + "".join(stand_in(name) for name in lacking))


def stand_in(name):
    if PRODUCT.match(name):
        return f"__attribute__((weak)) int {name}(void* handle) {{ return nullgpu_product(handle); }}\n"
    return f"__attribute__((weak)) int {name}(void) {{ return 0; }}\n"


def symbols(which, *libraries):
    ran = subprocess.run(["nm", "-D", which, *libraries], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in ran.stdout.splitlines() if line and not line.endswith(":")}
