"""What the demo prints: for a terminal with colours and a line that moves, for a log plain lines now and then."""

from __future__ import annotations

import os
import shutil
import time
from typing import TextIO

from django.core.management.color import supports_color
from django.utils.termcolors import colorize

BAR_WIDTH = 24
LOG_EVERY_S = 2.0
CLEAR_LINE = "\r\x1b[2K"


class Screen:
    """Print to a stream in the way that suits it.

    Args:
        stream: Where to print.
        is_terminal: Whether a line may be written over; by default, whether the stream is a terminal.
    """

    def __init__(self, stream: TextIO, *, is_terminal: bool | None = None) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty() if is_terminal is None else is_terminal
        self._has_colours = self._is_terminal and supports_color() and "NO_COLOR" not in os.environ
        self._has_unicode = (stream.encoding or "").lower().replace("-", "").startswith("utf")
        self._is_moving = False
        self._logged_at = float("-inf")
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

    def title(self, text: str) -> None:
        """Print a heading."""
        self.say()
        self.say(self._colour(text, opts=("bold",)))

    def say(self, text: str = "") -> None:
        """Print a line that stays."""
        if self._is_moving:
            self._stream.write(CLEAR_LINE)
            self._is_moving = False
        self._write(f"{text}\n")

    def fact(self, name: str, text: str) -> None:
        """Print a named fact; names of a block are aligned."""
        self.say(f"  {name:<10}{text}")

    def good(self, text: str) -> None:
        """Print a line about something that is as it should be."""
        self.say(self._colour(f"  {text}", fg="green"))

    def bad(self, text: str) -> None:
        """Print a line about something that is not as it should be."""
        self.say(self._colour(f"  {text}", fg="red", opts=("bold",)))

    def loud(self, text: str) -> None:
        """Print a line that must not be missed."""
        self.say(self._colour(f"  {text}", fg="yellow", opts=("bold",)))

    def progress(self, done: int, total: int, text: str) -> None:
        """Show how far it is: written over on a terminal, a line every two seconds elsewhere."""
        line = f"  {self._bar(done, total)} {done:>3} of {total} {text}"
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            self._write(CLEAR_LINE + line[: width - 1])
            self._is_moving = True
        elif time.monotonic() - self._logged_at >= LOG_EVERY_S:
            self._logged_at = time.monotonic()
            self.say(line)

    def finish_progress(self, done: int, total: int, text: str) -> None:
        """Show how far it is, and keep the line."""
        self.say(f"  {self._bar(done, total)} {done:>3} of {total} {text}")
        self._logged_at = time.monotonic()

    def _bar(self, done: int, total: int) -> str:
        filled = BAR_WIDTH * done // max(total, 1)
        full, empty = ("█", "░") if self._has_unicode else ("#", ".")
        return full * filled + empty * (BAR_WIDTH - filled)

    def _colour(self, text: str, *, fg: str | None = None, opts: tuple[str, ...] = ()) -> str:
        if not self._has_colours:
            return text
        return colorize(text, opts=opts, **({"fg": fg} if fg else {}))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
