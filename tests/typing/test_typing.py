"""The public API as type checkers see it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARKER = re.compile(r"# error: (.+)$")


def _wanted() -> dict[int, str]:
    lines = (HERE / "refused.py").read_text(encoding="utf-8").splitlines()
    return {number: match[1] for number, line in enumerate(lines, 1) if (match := MARKER.search(line))}


def _errors(output: str, pattern: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in output.splitlines():
        if (match := re.match(pattern, line.strip())) is not None:
            found[int(match[1])] = found.get(int(match[1]), "") + match[2]
    return found


def _mypy(name: str, cache: Path) -> subprocess.CompletedProcess[str]:
    (cache / "mypy.ini").write_text("[mypy]\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(cache / "mypy.ini"), "--strict", "--no-pretty"]
    command += ["--cache-dir", str(cache), "--no-error-summary", "--follow-imports=silent", str(HERE / name)]
    environment = {"MYPYPATH": f"{ROOT}:{HERE}", "PATH": "", "PYTHONPATH": ""}
    return subprocess.run(command, capture_output=True, text=True, cwd=cache, env=environment, check=False)


def _pyright(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    settings = f'{{"include": ["{HERE / name}"], "extraPaths": ["{ROOT}", "{HERE}"], "typeCheckingMode": "strict"}}'
    (folder / "pyrightconfig.json").write_text(settings, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--project",
        str(folder / "pyrightconfig.json"),
        "--level",
        "error",
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mypy")
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.timeout(300)
def test_mypy_accepts_every_use_that_is_right(cache):
    done = _mypy("accepted.py", cache)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.timeout(300)
def test_mypy_refuses_every_use_that_is_wrong_and_names_the_argument(cache):
    done = _mypy("refused.py", cache)
    found = _errors(done.stdout, r".*refused\.py:(\d+): error: (.*)")

    assert sorted(found) == sorted(_wanted()), done.stdout + done.stderr
    assert [(line, word, found[line]) for line, word in _wanted().items() if word not in found[line]] == []


@pytest.mark.timeout(300)
def test_pyright_accepts_every_use_that_is_right(tmp_path):
    pytest.importorskip("basedpyright")
    done = _pyright("accepted.py", tmp_path)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.timeout(300)
def test_pyright_refuses_every_use_that_is_wrong(tmp_path):
    pytest.importorskip("basedpyright")
    done = _pyright("refused.py", tmp_path)
    found = _errors(done.stdout, r".*refused\.py:(\d+):\d+ - error: (.*)")

    assert sorted(found) == sorted(_wanted()), done.stdout + done.stderr
