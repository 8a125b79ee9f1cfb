"""What the packages declare about themselves, read from `packages/*/pyproject.toml`."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Package:
    """One package of the repository.

    `requires` are the requirements of a plain installation, `extras` those that an extra adds; both hold
    third-party requirements and siblings as they are written.
    """

    name: str
    folder: Path
    requires: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]

    def requirements(self, extras: tuple[str, ...] = ()) -> tuple[str, ...]:
        return (*self.requires, *(text for extra in extras for text in self.extras[extra]))


def load_packages(root: Path = ROOT) -> dict[str, Package]:
    """All packages by name, in alphabetical order."""
    packages = {}
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        packages[project["name"]] = Package(
            name=project["name"],
            folder=path.parent,
            requires=tuple(project.get("dependencies", ())),
            extras={extra: tuple(texts) for extra, texts in project.get("optional-dependencies", {}).items()},
        )
    return packages


def distribution_name(requirement: str) -> str:
    """Normalised name of the distribution that a requirement asks for: `ml_dtypes>=0.4` -> `ml-dtypes`."""
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def siblings(packages: dict[str, Package], name: str, extras: tuple[str, ...] = ()) -> frozenset[str]:
    """Packages of this repository that `name[extras]` declares, directly or not; without `name`."""
    found: set[str] = set()
    todo = list(packages[name].requirements(extras))
    while todo:
        requirement = Requirement(todo.pop())
        dependency = distribution_name(str(requirement))
        if dependency in packages and dependency not in found:
            found.add(dependency)
            todo += packages[dependency].requirements(tuple(sorted(requirement.extras)))
    return frozenset(found - {name})


def third_party(packages: dict[str, Package]) -> tuple[str, ...]:
    """All requirements, extras included, that packages of this repository do not meet; sorted."""
    texts = {text for package in packages.values() for text in package.requirements(tuple(package.extras))}
    return tuple(sorted(text for text in texts if distribution_name(text) not in packages))
