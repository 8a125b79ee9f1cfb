"""Build every package and test it alone: `./nox -s wheels [-- NAME ...]`.

For each package, and for each extra of rangeify, an empty environment gets the package's wheel with its
`test` extra, by file, and the wheels of the siblings that it declares, by file. Everything else comes from a
folder of third-party wheels that is filled once and holds nothing of this repository, so an undeclared
sibling cannot be installed by accident. Then

- no package of the repository but the declared ones is importable, and those come from the environment;
- the package's tests and the example of its README pass, run from a copy outside the source tree.

A package without tests is reported, not failed, until all have some.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from repository import ROOT, Package, load_packages, siblings, third_party

WHEELS = ROOT / "out" / "wheels"
WHEELHOUSE = ROOT / ".nox" / "wheelhouse"


class Failure(Exception):
    """A step that went wrong, with all output of it."""


@dataclass(frozen=True)
class Environment:
    """A package, with or without one of its extras, to be installed alone."""

    package: Package
    extra: str | None = None

    @property
    def name(self) -> str:
        return self.package.name if self.extra is None else f"{self.package.name}[{self.extra}]"

    @property
    def extras(self) -> tuple[str, ...]:
        return ("test",) if self.extra is None else (self.extra, "test")

    def tests(self) -> list[str]:
        """What pytest is given: everything, or the directory of the extra's tests."""
        return ["tests", "README.md"] if self.extra is None else [f"tests/{self.extra}"]

    def has_tests(self) -> bool:
        """Whether a test file is there that has to run in this environment."""
        files = (self.package.folder / self.tests()[0]).rglob("test_*.py")
        own = [file for file in files if self.extra or file.parent.name not in self.package.extras]
        return bool(own)


def environments(packages: dict[str, Package]) -> list[Environment]:
    found = []
    for package in packages.values():
        found.append(Environment(package))
        found += [Environment(package, extra) for extra in package.extras if extra != "test"]
    return found


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Failure(f"$ {' '.join(words)}\n{done.stdout}\nexit code {done.returncode}")
    return done.stdout


def build(package: Package) -> Path:
    """The package's wheel, built from its source distribution; checked to hold only the package."""
    with TemporaryDirectory(prefix=f"build-{package.name}-") as folder:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, package.folder)
        (built,) = Path(folder).glob("*.whl")
        wheel = WHEELS / built.name
        shutil.move(built, wheel)
    names = zipfile.ZipFile(wheel).namelist()
    stray = [name for name in names if not name.startswith((f"{package.name}/", f"{package.name}-"))]
    if stray:
        raise Failure(f"{wheel.name} holds files that are not of the package: {', '.join(stray)}")
    if f"{package.name}/py.typed" not in names:
        raise Failure(f"{wheel.name} has no py.typed")
    return wheel


def fill_wheelhouse(packages: dict[str, Package]) -> None:
    """Third-party wheels for all environments; kept from run to run while the requirements stay the same."""
    wanted = third_party(packages)
    fingerprint = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    stamp = WHEELHOUSE / "stamp"
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    shutil.rmtree(WHEELHOUSE, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", WHEELHOUSE, *wanted)
    stamp.write_text(fingerprint)


IMPORTABLE = """
import importlib.util, sys
environment, *rest = sys.argv[1:]
declared = set(rest[: rest.index("--")])
for name in rest[rest.index("--") + 1 :]:
    spec = importlib.util.find_spec(name)
    if spec is None and name in declared:
        sys.exit(f"{name} is declared but not importable")
    if spec is not None and name not in declared:
        sys.exit(f"{name} is importable from {spec.origin} but not declared")
    if spec is not None and not (spec.origin or "").startswith(environment):
        sys.exit(f"{name} comes from {spec.origin}, not from the environment")
"""


def check(environment: Environment, wheels: dict[str, Path]) -> str:
    """Install and test one environment; the output of its tests."""
    package = environment.package
    declared = siblings(load_packages(), package.name, environment.extras) | {package.name}
    with TemporaryDirectory(prefix=f"wheel-{package.name}-") as folder:
        home = Path(folder).resolve()
        run(sys.executable, "-m", "venv", "--without-pip", home / "env")
        python = home / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        own = f"{wheels[package.name]}[{','.join(environment.extras)}]"
        others = [wheels[name] for name in sorted(declared - {package.name})]
        pip = (sys.executable, "-m", "pip", "--python", python)
        offline = ("--no-index", "--find-links", WHEELHOUSE)
        run(*pip, "install", "--quiet", "--no-compile", *offline, own, *others)
        run(*pip, "check")
        run(python, "-P", "-c", IMPORTABLE, home / "env", *sorted(declared), "--", *sorted(wheels))
        if not environment.has_tests():
            raise Failure(f"{environment.name} has no tests")
        copy = home / "copy"
        copy.mkdir()
        tests = package.folder / "tests"
        for source in (tests, package.folder / "examples"):
            if source.is_dir():
                shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(package.folder / name, copy / name)
        pytest = (python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-glob=README.md")
        return run(*pytest, *environment.tests(), cwd=copy)


def main(names: list[str]) -> int:
    packages = load_packages()
    selected = [item for item in environments(packages) if not names or item.name in names]
    if unknown := set(names) - {item.name for item in selected}:
        print(f"no such package: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    shutil.rmtree(WHEELS, ignore_errors=True)
    WHEELS.mkdir(parents=True)
    failed = []

    def timed(item: Environment) -> tuple[str, bool, float]:
        start = time.monotonic()
        try:
            return check(item, wheels), True, time.monotonic() - start
        except Failure as failure:
            return str(failure), False, time.monotonic() - start

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        filling = pool.submit(fill_wheelhouse, packages)
        try:
            wheels = dict(zip(packages, pool.map(build, packages.values()), strict=True))
            filling.result()
        except Failure as failure:
            print(failure)
            return 1
        print(f"built {', '.join(wheel.name for wheel in wheels.values())}", flush=True)
        for item, (output, good, seconds) in zip(selected, pool.map(timed, selected), strict=True):
            print(f"\n--- {item.name}: {'good' if good else 'FAILED'} after {seconds:.0f} s", flush=True)
            print(output if not good else "\n".join(output.rstrip().splitlines()[-2:]), flush=True)
            if not good:
                failed.append(item.name)
    print(f"\nwheels: {len(selected) - len(failed)} of {len(selected)} environments are good")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
