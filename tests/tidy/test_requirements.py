"""The requirement files pin everything that pyproject.toml asks for, with hashes, and name no host.

Checked without a network, so this cannot know whether a pin is the newest: it says that `make lock` was run.
"""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import NamedTuple

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tests.tidy import tree

RUN, DEVELOP, WHEELS = "requirements/run.txt", "requirements/develop.txt", "requirements/wheels.txt"
PYTHONS = ["3.11.0", "3.11.7", "3.12.1", "3.13.0", "3.14.0"]
HASH = re.compile(r"sha256:[0-9a-f]{64}")
NATIVE = "oneread-native"  # of this tree
LOCK = "`make lock` writes it"


class Pin(NamedTuple):
    """One line of a requirement file: what it pins, its hashes, and which packages or groups asked for it."""

    requirement: Requirement
    hashes: list[str]
    sources: list[str]

    @property
    def version(self):
        operators = [(each.operator, each.version) for each in self.requirement.specifier]
        return operators[0][1] if [operator for operator, _version in operators] == ["=="] else None

    @property
    def is_direct(self):
        return any(source.startswith("oneread (pyproject.toml") for source in self.sources)

    def applies(self, python):
        short = python.rpartition(".")[0]
        marker = self.requirement.marker
        return marker is None or marker.evaluate({"python_version": short, "python_full_version": python})


def pins_in(text):
    """The pins of a requirement file; ValueError for a line that is not one."""
    pins = []
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("    #"):
            pins[-1].sources.append(re.sub(r"^\s+#\s+(via\s*)?", "", line))
            continue
        requirement, *hashes = line.split("--hash=")
        try:
            pins.append(Pin(Requirement(requirement.strip()), [each.strip() for each in hashes], []))
        except InvalidRequirement as error:
            raise ValueError(f"not a pinned package: {line}") from error
    return pins


def name_of(requirement):
    return canonicalize_name(requirement.name)


def faults(pins, wanted):
    """What the pins lack of the wanted requirements, and which of them were not wanted."""
    found = [f"{pin.requirement.name}: no single version" for pin in pins if not pin.version]
    found += [
        f"{pin.requirement.name}: no sha256"
        for pin in pins
        if not (pin.hashes and all(HASH.fullmatch(each) for each in pin.hashes))
    ]
    names = {name_of(requirement) for requirement in wanted}
    found += [
        f"{pin.requirement.name}: pyproject.toml does not ask for it"
        for pin in pins
        if pin.is_direct and name_of(pin.requirement) not in names
    ]
    for requirement in wanted:
        for python in PYTHONS:
            fitting = [
                pin.version for pin in pins if name_of(pin.requirement) == name_of(requirement) and pin.applies(python)
            ]
            if len(fitting) != 1 or not requirement.specifier.contains(fitting[0], prereleases=True):
                found.append(f"{requirement} on Python {python}: pinned are {fitting}")
    return found


def settings():
    return tomllib.loads(tree.text(tree.ROOT / "pyproject.toml"))


def group(name):
    """The requirements of a dependency group and of those that it includes."""
    for entry in settings()["dependency-groups"][name]:
        if isinstance(entry, str):
            yield Requirement(entry)
        else:
            yield from group(entry["include-group"])


def running():
    return [*map(Requirement, settings()["project"]["dependencies"]), *group("build")]


def developing():
    extras = settings()["project"]["optional-dependencies"].values()
    asked = [Requirement(each) for extra in extras for each in extra]
    return [*running(), *(each for each in asked if each.name != NATIVE), *group("dev")]


def compiling():
    return [*group("wheels")]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [(RUN, running), (DEVELOP, developing), (WHEELS, compiling)],
    ids=["run", "develop", "wheels"],
)
def test_the_file_pins_what_is_asked_for_and_nothing_else(path, wanted):
    assert not faults(pins_in(tree.text(tree.ROOT / path)), list(wanted())), LOCK


@pytest.mark.parametrize("path", [RUN, DEVELOP, WHEELS])
def test_the_file_names_no_host_and_sets_no_option(path):
    text = tree.text(tree.ROOT / path)
    assert "//" not in text
    assert not re.search(r"^\s*-", re.sub(r"^    --hash=", "", text, flags=re.MULTILINE), re.MULTILINE)


def test_developing_keeps_the_versions_of_running():
    run, develop = (
        {(str(pin.requirement), *pin.hashes) for pin in pins_in(tree.text(tree.ROOT / path))} for path in (RUN, DEVELOP)
    )
    assert run < develop, LOCK


def test_every_group_is_pinned():
    everything = {each for name in settings()["dependency-groups"] for each in map(str, group(name))}
    assert everything == {*map(str, group("dev")), *map(str, group("wheels"))}


def test_the_compiled_binding_is_of_the_same_version():
    of_native = tomllib.loads(tree.text(tree.ROOT / "native/pyproject.toml"))["project"]
    project = settings()["project"]
    assert of_native["version"] == project["version"]
    assert project["optional-dependencies"]["native"] == [f"{of_native['name']}=={project['version']}"]
    assert of_native["requires-python"] == project["requires-python"]


def test_the_build_backend_is_pinned_too():
    assert set(settings()["build-system"]["requires"]) == set(map(str, group("build")))


def imported(module):
    """The top-level packages that a parsed module imports absolutely."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def test_every_package_that_the_tree_imports_is_asked_for_by_name():
    names = {name for path in tree.python_files() for name in imported(ast.parse(tree.text(path)))}
    own = {"oneread", "oneread_native", *(path.parts[0] for path in tree.python_files())}
    asked, provided = set(map(name_of, developing())), packages_distributions()
    missing = {
        name
        for name in names - own - sys.stdlib_module_names
        if asked.isdisjoint(map(canonicalize_name, provided.get(name, ())))
    }
    assert not missing


def test_imports_are_found_wherever_they_stand():
    text = "import a.b, c\ndef f():\n    from d.e import g\n    from . import h\n    from .i import j"
    assert set(imported(ast.parse(text))) == {"a", "c", "d"}


GOOD = f"lmdb==1.7.5 \\\n    --hash=sha256:{'0' * 64}\n    # via oneread (pyproject.toml)\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD, None),
        ("# nothing\n", "lmdb>=1.6 on Python 3.11.0: pinned are []"),
        (GOOD.replace("1.7.5", "1.5"), "lmdb>=1.6 on Python 3.11.0: pinned are ['1.5']"),
        (GOOD.replace("1.7.5", "1.7.5 ; python_full_version >= '3.12'"), "lmdb>=1.6 on Python 3.11.7: pinned are []"),
        (GOOD.replace("==", ">="), "lmdb: no single version"),
        (GOOD.partition(" \\")[0], "lmdb: no sha256"),
        (GOOD.replace("sha256", "md5"), "lmdb: no sha256"),
        (GOOD + GOOD.replace("lmdb", "left-over"), "left-over: pyproject.toml does not ask for it"),
        (GOOD + GOOD.replace("lmdb", "other").replace("oneread (pyproject.toml)", "lmdb"), None),
    ],
)
def test_a_file_that_is_behind_would_be_found(text, fault):
    found = faults(pins_in(text), [Requirement("lmdb>=1.6")])
    assert fault in found if fault else not found


@pytest.mark.parametrize("line", ["--index-url=x", "-e .", "./wheels/lmdb.whl"])
def test_a_line_that_is_not_a_pinned_package_would_be_found(line):
    with pytest.raises(ValueError, match="not a pinned package"):
        pins_in(line)
