"""The pages people read: their Python is Python, their links lead somewhere."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match["language"], dedent(match["body"]))
        for match in FENCE.finditer(text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_in_a_page_is_python(page: Path):
    for block in blocks(page):
        if block.language in {"python", "py"}:
            ast.parse(block.body, filename=str(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(page: Path):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"].split("#")[0] for match in LINK.finditer(text)]
    dead = [
        target
        for target in targets
        if target and "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]

    assert not dead
