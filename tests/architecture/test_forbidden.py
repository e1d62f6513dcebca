"""What the package must never contain."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Source, dotted, imports, sources

MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"}
CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load"}
NAMES = {"mark_safe", "SafeString", "SafeText"}


def forbidden(source: Source) -> Iterator[str]:
    """Yield each place where data could become code, or text could become markup."""
    for node, name in imports(source.tree):
        if name.split(".")[0] in MODULES:
            yield source.at(node, f"imports {name}: nothing is pickled")
        if name.split(".")[-1] in NAMES:
            yield source.at(node, f"imports {name}: markup comes from templates and format_html")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and dotted(node.func) in CALLS:
            yield source.at(node, f"calls {dotted(node.func)}")
        if isinstance(node, ast.keyword) and node.arg == "shell" and getattr(node.value, "value", None) is True:
            yield source.at(node.value, "starts a shell")


def test_data_never_becomes_code():
    found = [finding for source in sources() for finding in forbidden(source)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line", ["import pickle", "from django.utils.safestring import mark_safe", "eval('1')", "run('x', shell=True)"]
)
def test_forbidden_things_are_seen(line):
    source = Source(path=sources()[0].path.parent / "core" / "x.py", text=line, tree=ast.parse(line))

    assert len(list(forbidden(source))) == 1


def test_templates_escape():
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in sorted(sources()[0].path.parent.rglob("templates/**/*.html"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "|safe" in line or "autoescape off" in line or "|safeseq" in line
    ]

    assert not found, "\n".join(found)


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    places = ("pypi.org/simple", "files.pythonhosted.org", "--index-url", "--extra-index-url", "/home/", "/Users/")
    found = [source.at(source.tree, place) for source in sources() for place in places if place in source.text]

    assert not found, "\n".join(found)
