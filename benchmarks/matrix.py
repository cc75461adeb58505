"""Supported means tested: Python versions, lowest and newest dependencies, kernels of OpenBLAS, aarch64 by emulation.

\b
make matrix                                      # every cell that this machine can play, and why not the others
python -m benchmarks.matrix --only lowest --out benchmarks/results/matrix-YYYY-MM-DD.md

Each cell has a folder of packages of its own, fetched by uv, and runs the quick tests (`make quick`) or, where that
takes too long, the checks of the golden files (certificates of four machines are verified, their unfinished runs go on)
and the tests of the statistics. Interpreters are looked for on this machine; Python 3.14 and the one for aarch64 come
from Debian's packages, unpacked into a folder by debootstrap (as root), and qemu runs the latter.
Exit code 0: no cell failed; what could not be had has its reason in the table.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click

from benchmarks.tables import markdown, publish

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
CORES = ("Haswell", "SkylakeX", "Prescott")
TESTS_NEED = (
    "pytest>=8",
    "hypothesis>=6.100",
    "threadpoolctl>=3",
    "jsonschema>=4.18",
    "cloudpickle>=3",
    "pandas>=2.0",
)
QUICK_FOLDERS = re.search(
    r"^QUICK := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
)
LONGEST_REASON, MOST_NAMED = 160, 5
UV = (sys.executable, "-m", "uv", "pip")
Command = list[str]


class CannotBeHad(Exception):
    """Why a cell cannot be run here."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is put together: an interpreter, the versions of the packages, and the machine."""

    version: str
    resolution: str = "newest"
    core: str = ""
    """The kernel of OpenBLAS to play, of this machine's own where empty."""
    arch: str = "x86-64"

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.version, self.resolution, self.core, self.arch) if part)

    @property
    def site(self) -> str:
        """The folder of packages; cells that differ in the kernel only share it."""
        return f"{self.version}-{self.resolution}-{self.arch}"

    @property
    def is_whole(self) -> bool:
        """Whether all quick tests are run."""
        return not self.core and self.arch == "x86-64"


CELLS = (
    Cell("3.11", "lowest"),
    *(Cell(version) for version in VERSIONS),
    *(Cell(version, "lowest") for version in VERSIONS[1:]),
    *(Cell("3.11", core=core) for core in CORES),
    Cell("3.11", arch="aarch64"),
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How to start a Python, and what it needs to be told."""

    command: tuple[str, ...]
    home: str = ""


def find_interpreter(cell: Cell, folder: Path) -> Interpreter:
    """Find a Python of this version, on this machine or in Debian's packages."""
    if cell.core == "SkylakeX" and "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        raise CannotBeHad("this processor has no AVX-512, which the kernel needs")
    if cell.arch == "aarch64":
        emulator = shutil.which("qemu-aarch64-static")
        if emulator is None:
            raise CannotBeHad("needs qemu-aarch64-static (Debian: qemu-user-static)")
        root = unpack_debian(folder, "bookworm", "arm64", "python3")
        return Interpreter((emulator, "-L", str(root), f"{root}/usr/bin/python{cell.version}"))
    candidates = [
        *Path.home().glob(f".pyenv/versions/{cell.version}.*/bin/python{cell.version}"),
        Path(shutil.which(f"python{cell.version}") or "/nowhere"),
    ]
    for path in candidates:
        if (
            path.exists()
            and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
        ):
            return Interpreter((str(path),))
    root = unpack_debian(folder, "sid", "amd64", f"python{cell.version}")
    libraries = root / "usr/lib/x86_64-linux-gnu"
    # Debian's newest C library is not this machine's: its own loader starts the interpreter.
    loader = (f"{libraries}/ld-linux-x86-64.so.2", "--library-path", str(libraries))
    return Interpreter((*loader, f"{root}/usr/bin/python{cell.version}"), f"{root}/usr")


def unpack_debian(folder: Path, suite: str, arch: str, package: str) -> Path:
    """Unpack a small Debian with one more package into a folder; nothing of it is installed or run as root."""
    root = folder / f"{suite}-{arch}-{package}"
    ready = root / "unpacked"
    if ready.exists():
        return root
    if shutil.which("debootstrap") is None or os.getuid() != 0:
        raise CannotBeHad(f"no {package} here; Debian's needs root and the package debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    options = ["--variant=minbase", "--foreign", f"--arch={arch}", f"--include={package}"]
    done = subprocess.run(["debootstrap", *options, suite, root], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBeHad(f"debootstrap has no {package}: {last_line(done.stdout + done.stderr)}")
    for archive in sorted(root.glob("var/cache/apt/archives/*.deb")):
        subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
    ready.touch()
    return root


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST_REASON].replace("|", "/") if lines else "no message"


def fetch_packages(cell: Cell, folder: Path) -> Path:
    """Fetch what cereval and its tests need into a folder; wheels only."""
    site, asked = folder / cell.site, "\n".join([*declared(), *TESTS_NEED])
    if (site / "fetched").exists() and (site / "fetched").read_text(encoding="utf-8") == asked:
        return site
    shutil.rmtree(site, ignore_errors=True)
    platform = "aarch64" if cell.arch == "aarch64" else "x86_64"
    lowest = ["--resolution", "lowest-direct"] if cell.resolution == "lowest" else []
    command = [*UV, "install", "--quiet", "--target", str(site), "--only-binary", ":all:", *lowest]
    command += ["--python-version", cell.version, "--python-platform", f"{platform}-manylinux_2_28"]
    with tempfile.TemporaryDirectory() as place:
        # Of our own package only what it asks for: its code is run from where it lies.
        wanted = Path(place) / "wanted.txt"
        compiled = [*UV, "compile", "--quiet", *lowest, *command[-4:], "--only-binary", ":all:"]
        needs = Path(place) / "needs.in"
        needs.write_text(asked, encoding="utf-8")
        done = subprocess.run([*compiled, needs, "-o", wanted], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            done = subprocess.run([*command, "-r", wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBeHad(f"uv: {' '.join(done.stderr.split())[:LONGEST_REASON]}")
    (site / "fetched").write_text(asked, encoding="utf-8")
    return site


def declared() -> list[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies: list[str] = project["dependencies"]
    return dependencies


def checks(cell: Cell, tests: Sequence[str]) -> list[Command]:
    """What is run in a cell, by its interpreter."""
    assert QUICK_FOLDERS is not None
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    if tests:
        return [[*pytest, *tests]]
    if cell.is_whole:
        return [
            [
                *pytest,
                *(
                    f"{place}/{name}"
                    for place in ("tests", "src/cereval")
                    for name in QUICK_FOLDERS[1].split()
                ),
            ]
        ]
    # Emulated processes cannot start others, and take fifty times as long: no doctests of examples there.
    return [["-m", "tests.golden.check"], [*pytest, "tests/stats"]]


def run_cell(cell: Cell, folder: Path, tests: Sequence[str]) -> list[object]:
    """Put a cell together and run it; return its row of the table."""
    began = monotonic()
    try:
        interpreter = find_interpreter(cell, folder)
        site = fetch_packages(cell, folder)
    except (CannotBeHad, OSError, subprocess.SubprocessError) as error:
        return [*describe(cell), "", "", "not run", last_line(str(error)), ""]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{site}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **({"OPENBLAS_CORETYPE": cell.core} if cell.core else {}),
        **({"PYTHONHOME": interpreter.home} if interpreter.home else {}),
    }
    said, verdict = [], "green"
    for arguments in checks(cell, tests):
        # -S: nothing that this interpreter has installed besides.
        command = [*interpreter.command, "-S", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        said.append(last_line(done.stdout) if done.stdout.strip() else last_line(done.stderr))
        said += [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))][
            :MOST_NAMED
        ]
        click.echo(done.stdout[-3000:] + done.stderr[-3000:] if done.returncode else said[-1], err=True)
        verdict = "RED" if done.returncode else verdict
    details = [state_version(interpreter, environment), state_packages(site)]
    return [*describe(cell), *details, verdict, "; ".join(said), f"{monotonic() - began:.0f}"]


def describe(cell: Cell) -> list[object]:
    return [f"{cell.arch}{' as ' + cell.core if cell.core else ''}", cell.version, cell.resolution]


def state_version(interpreter: Interpreter, environment: dict[str, str]) -> str:
    command = [*interpreter.command, "-S", "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    ).stdout.strip()


def state_packages(site: Path) -> str:
    """Name the versions of the packages that matter most."""
    found = {}
    for name in ("numpy", "scipy", "pyarrow", "click"):
        for path in site.glob(f"{name}-*.dist-info"):
            found[name] = path.name.removesuffix(".dist-info").split("-")[1]
    return ", ".join(f"{name} {version}" for name, version in found.items())


def chosen(only: Sequence[str]) -> Iterator[Cell]:
    for cell in CELLS:
        if all(word in cell.name.split() for word in only):
            yield cell


@click.command(help=__doc__)
@click.option(
    "--only", multiple=True, help="Only cells with this word, such as 3.12, lowest, Haswell or aarch64."
)
@click.option("--tests", multiple=True, help="Only these tests, such as tests/scorers; may be repeated.")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path(".matrix"), help="Packages and interpreters."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the table to this file.")
def main(only: tuple[str, ...], tests: tuple[str, ...], folder: Path, out: Path | None) -> None:
    folder = folder.resolve()
    folder.mkdir(exist_ok=True)
    rows = []
    for cell in chosen(only):
        click.echo(f"== {cell.name}", err=True)
        rows.append(run_cell(cell, folder, tests))
    header = ("machine", "Python", "versions", "exactly", "packages", "result", "what was said", "seconds")
    publish("What was tested where", "benchmarks.matrix", markdown(header, rows), out)
    sys.exit(any("RED" in row for row in rows))


if __name__ == "__main__":
    main()
