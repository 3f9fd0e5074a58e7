"""The Debian package of this build, installed in a bare Debian or Ubuntu of this machine's release: it brings all that it needs,
and `simulate llama70b` prints what README.md shows. Completion scripts lie where Debian's shells look for those of packages.

    python3 tests/scripts/package_test.py BUILD SOURCE

Needs mmdebstrap, and the network for the bare system and the packages that ours depends on: without one of them it is skipped.
"""
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

BUILD, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tests/docs"))
import pages  # noqa: E402

BARE, INSTALLED, DONE = "the bare system stands", "the package is installed", "the program has ended"
COMPLETIONS = {f"./usr/share/{path}" for path in (
    "bash-completion/completions/simulate", "bash-completion/completions/stepcast", "zsh/vendor-completions/_simulate",
    "fish/vendor_completions.d/simulate.fish", "fish/vendor_completions.d/stepcast.fish")}
# What apt says where the network, and not the package, is at fault.
NETWORK = ("Failed to fetch", "Temporary failure", "Could not resolve", "Could not connect", "Connection timed out")


def skip(why):
    print("SKIPPED:", why)
    sys.exit(0)


def packed(folder):
    """The package as cpack makes it of what this build has compiled."""
    subprocess.run(["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder], check=True,
                   stdout=subprocess.DEVNULL)
    found = list(pathlib.Path(folder).glob("stepcast_*.deb"))
    assert len(found) == 1, found
    listed = subprocess.run(["dpkg-deb", "--contents", found[0]], check=True, text=True, stdout=subprocess.PIPE).stdout
    missing = COMPLETIONS - {line.split()[5] for line in listed.splitlines()}
    assert not missing, f"the package lacks {sorted(missing)}"
    return found[0]


def tried(package):
    """What the installed program prints. Hooks run in order once the bare system is made; nothing is left of it afterwards."""
    inside = f"/{package.name}"
    hooks = [f"echo '{BARE}'", f"upload '{package}' {inside}",
             f'chroot "$1" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends {inside}',
             f"echo '{INSTALLED}'",
             f'chroot "$1" env ASAN_OPTIONS=detect_leaks=0 stepcast llama70b 2>"{package}.log"', f"echo '{DONE}'"]
    command = ["mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io",
               '--aptopt=Acquire::Languages "none"', *(f"--customize-hook={hook}" for hook in hooks),
               platform.freedesktop_os_release()["VERSION_CODENAME"], "/dev/null"]
    # A file takes the program's own standard error: /dev/null cannot be opened in every hook's namespace.
    # mmdebstrap prints what its hooks print on its own standard error.
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout.strip()[-2000:]
    if BARE not in done.stdout:
        skip(f"no bare system could be made: {said[-300:]}")
    if INSTALLED not in done.stdout and any(word in done.stdout for word in NETWORK):
        skip(f"the packages that ours depends on could not be fetched: {said[-300:]}")
    assert done.returncode == 0, said
    return done.stdout.split(INSTALLED + "\n", 1)[1].split(DONE, 1)[0]


def main():
    for program, debian in (("cpack", "cmake"), ("dpkg-shlibdeps", "dpkg-dev"), ("mmdebstrap", "mmdebstrap")):
        if shutil.which(program) is None:
            skip(f"{program} was not found (Debian: {debian})")
    with tempfile.TemporaryDirectory(prefix="stepcast-package-") as folder:
        printed = pages.trimmed(tried(packed(folder)))
    text = (SOURCE / "README.md").read_text()
    _, first, last = pages.printed_block(text)
    shown = [line.removeprefix("    ") for line in text.splitlines()[first:last]]
    if printed != shown:
        sys.exit("the installed program does not print README.md's block:\n" + "\n".join(printed))
    print("as README.md shows it")


if __name__ == "__main__":
    main()
