"""The pages people read, and what stands in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[ \t]*(?P<file>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$", re.MULTILINE)
OPTION = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page; ``file`` is the word after the language."""

    page: Path
    line: int
    language: str
    file: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line after a ``$``, and the lines that it prints."""

    at: str
    text: str
    printed: tuple[str, ...]


def page_name(page: Path) -> str:
    """Return how a page is called in tests."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            language=match["language"],
            file=match["file"],
            body=dedent(match["body"]),
        )
        for match in FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; without a ``$`` each of its lines is one."""
    lines = block.body.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        yield from (Command(at=str(block), text=line, printed=()) for line in lines if line.strip())
        return
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        at = f"{page_name(block.page)}:{block.line + 1 + start}"
        printed = tuple(line for line in lines[start + 1 : end] if line.strip())
        yield Command(at=at, text=lines[start].removeprefix("$ "), printed=printed)


def anchor(heading: str) -> str:
    """Return the anchor that a heading gets on the web."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return text.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(match["text"]) for match in HEADING.finditer(text)}


def section(page: Path, heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^#+ +{re.escape(heading)} *$(?P<text>.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page_name(page)} has no heading {heading!r}"
    return found["text"]


def table(text: str) -> list[list[str]]:
    """Return the rows of the first table in a text, without its head."""
    rows = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def code(cell: str) -> str:
    """Return what stands between the first pair of backticks of a cell."""
    found = OPTION.search(cell)
    assert found is not None, f"no `code` in {cell!r}"
    return found[1]
