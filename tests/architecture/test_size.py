"""Files and functions stay small enough to be read at once."""

import ast

from tests.architecture.sources import Source, sources

FILE_LINES = 450
FUNCTION_LINES = 80


def code_lines(source: Source) -> int:
    """Return the number of lines that are neither blank nor a comment nor part of a docstring."""
    documented = {
        line
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for line in _docstring(node)
    }
    return sum(
        number not in documented and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.text.splitlines(), 1)
    )


def functions(source: Source) -> list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Return each function with its length in lines, the docstring not counted."""
    return [
        (node, (node.end_lineno or node.lineno) - node.lineno + 1 - len(_docstring(node)))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def test_no_file_is_long():
    sizes = {source.name: code_lines(source) for source in sources() if source.room != "migrations"}
    long = {name: lines for name, lines in sizes.items() if lines > FILE_LINES}

    assert not long


def test_no_function_is_long():
    long = [
        source.at(node, f"{node.name} has {lines} lines")
        for source in sources()
        for node, lines in functions(source)
        if lines > FUNCTION_LINES
    ]

    assert not long, "\n".join(long)


def test_every_module_says_why_it_exists():
    silent = [
        source.name
        for source in sources()
        if source.room != "migrations" and source.text.strip() and not ast.get_docstring(source.tree)
    ]

    assert not silent
