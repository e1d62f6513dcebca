"""JSON as it is given on the command line: in place, from a file, or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from durable.management.base import refusal

HELP = "JSON in place, @FILE for a file, or - for standard input"


def read_payload(text: str | None, option: str) -> Any:
    """Return the value that an option gives; ``None`` where it was left out.

    Raises:
        CommandError: It is no JSON, or the file cannot be read.
    """
    if text is None:
        return None
    source = _read_source(text, option)
    try:
        return json.loads(source)
    except ValueError as error:
        hint = f" Text needs quotes: {option} '{json.dumps(text)}'." if source == text and text.isidentifier() else ""
        raise refusal(f"{option} is no JSON: {error}.{hint}") from error
    except RecursionError as error:
        raise refusal(f"{option} is nested too deeply.") from error


def _read_source(text: str, option: str) -> str:
    try:
        if text == "-":
            return sys.stdin.read()
        return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
    except OSError as error:
        raise refusal(f"{option}: {text[1:]} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise refusal(f"{option}: {text[1:] or 'standard input'} is no UTF-8 text.") from error
