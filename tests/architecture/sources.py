"""The package's source files, parsed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "durable"


@dataclass(frozen=True, slots=True)
class Source:
    """One source file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path from the package's folder on, with forward slashes."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    def at(self, node: ast.AST, what: str) -> str:
        """Describe a finding as editors read it: file, line, what."""
        return f"durable/{self.name}:{getattr(node, 'lineno', 1)}: {what}"


@cache
def sources() -> tuple[Source, ...]:
    """Return every source file of the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return tuple(Source(path=path, text=text, tree=ast.parse(text)) for path, text in texts.items())


def dotted(node: ast.AST) -> str | None:
    """Return `a.b.c` for an attribute of a name, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


def imports(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each imported module or name with its full name; imports for type checkers are left out."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and dotted(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)
