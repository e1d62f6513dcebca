"""A failure as data: what is stored, shown and sent instead of an exception object.

An exception can be anything: huge, chained a thousand deep, or unable to print itself. What is kept of it is bounded
to ``LIMIT_BYTES`` of JSON and can be stored on every database.
"""

from __future__ import annotations

import json
import re
import traceback as tracebacks
from dataclasses import dataclass
from typing import Any

LIMIT_BYTES = 32 * 1024

_KIND_BYTES = 512
_CODE_BYTES = 512
_MESSAGE_BYTES = 8 * 1024
_TRACEBACK_BYTES = 22 * 1024
_CHAIN_LINKS = 8
_FRAMES = 30
_CUT = " … "

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Hold what is known about a failure.

    Attributes:
        kind: Name of the exception's class.
        code: Stable text for programs, where the exception has one.
        message: For people.
        retryable: Whether another attempt can help.
        traceback: Where it happened, innermost frames last.
        attempts: How often the work was tried.
        seq: Position in the run of the step that failed.
    """

    kind: str
    code: str | None = None
    message: str = ""
    retryable: bool = True
    traceback: str | None = None
    attempts: int | None = None
    seq: int | None = None

    @classmethod
    def from_exception(cls, exc: BaseException, *, seq: int | None = None, attempts: int | None = None) -> Failure:
        """Describe an exception, whatever it does when it is looked at.

        Args:
            exc: The exception.
            seq: Position in the run; the exception's own ``seq`` when left out.
            attempts: How often the work was tried; the exception's own ``attempts`` when left out.

        Returns:
            A failure whose JSON is at most 32 KB.
        """
        code = _read(exc, "code")
        return cls(
            kind=_clip(type(exc).__name__, _KIND_BYTES),
            code=_clip(code, _CODE_BYTES) if isinstance(code, str) else None,
            message=_clip(_text_of(exc), _MESSAGE_BYTES),
            retryable=_read(exc, "retryable") is not False,
            traceback=_clip(_describe_chain(exc), _TRACEBACK_BYTES, keep_end=True),
            attempts=attempts if attempts is not None else _read_int(exc, "attempts"),
            seq=seq if seq is not None else _read_int(exc, "seq"),
        )

    def to_json(self) -> str:
        """Return the failure as JSON text of at most 32 KB in UTF-8."""
        return json.dumps(
            {
                "kind": _clip(self.kind, _KIND_BYTES),
                "code": None if self.code is None else _clip(self.code, _CODE_BYTES),
                "message": _clip(self.message, _MESSAGE_BYTES),
                "retryable": self.retryable,
                "traceback": None if self.traceback is None else _clip(self.traceback, _TRACEBACK_BYTES, keep_end=True),
                "attempts": self.attempts,
                "seq": self.seq,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """Read what ``to_json`` wrote; unknown keys are ignored, missing ones get their defaults.

        Raises:
            ValueError: The text is no JSON object.
        """
        try:
            facts = json.loads(text)
        except RecursionError as error:
            raise ValueError("A failure is a JSON object, not a text nested beyond reading") from error
        if not isinstance(facts, dict):
            raise ValueError(f"A failure is a JSON object, not {type(facts).__name__}")
        return cls(
            kind=str(facts.get("kind") or "Exception"),
            code=facts.get("code"),
            message=str(facts.get("message") or ""),
            retryable=facts.get("retryable") is not False,
            traceback=facts.get("traceback"),
            attempts=facts.get("attempts"),
            seq=facts.get("seq"),
        )


def _read(exc: BaseException, name: str) -> Any:
    try:
        return getattr(exc, name, None)
    except Exception:  # noqa: BLE001  # a property of a foreign exception may do anything; a failure must still be recorded
        return None


def _read_int(exc: BaseException, name: str) -> int | None:
    value = _read(exc, name)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _text_of(exc: BaseException) -> str:
    try:
        return str.__str__(str(exc))
    except Exception as trouble:  # noqa: BLE001  # the exception cannot print itself; its class must still be recorded
        return f"<its message cannot be shown: __str__ raised {type(trouble).__name__}>"


def _describe_chain(exc: BaseException) -> str:
    links: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and len(links) < _CHAIN_LINKS and not any(link is each for each in links):
        links.append(link)
        link = link.__cause__ if link.__suppress_context__ else link.__context__
    parts = ["… earlier exceptions are left out …\n"] if link is not None else []
    parts += [_describe_link(each) for each in reversed(links)]
    return "\nThat led to:\n\n".join(parts)


def _describe_link(exc: BaseException) -> str:
    try:
        frames = "".join(tracebacks.format_tb(exc.__traceback__, limit=-_FRAMES))
    except Exception:  # noqa: BLE001  # source files may be unreadable; the class and message must still be recorded
        frames = ""
    head = "Traceback (most recent call last):\n" if frames else ""
    return f"{head}{frames}{type(exc).__qualname__}: {_text_of(exc)[:_MESSAGE_BYTES]}\n"


def _clip(text: str, budget_bytes: int, *, keep_end: bool = False) -> str:
    if len(text) > budget_bytes:
        text = _CUT + text[-budget_bytes:] if keep_end else text[:budget_bytes] + _CUT
    text = _UNSTORABLE.sub("\ufffd", text)
    while (excess := _json_bytes(text) - budget_bytes) > 0:
        # a character takes at most 6 bytes as JSON, so this never cuts more than needed by much
        drop = max(1, excess // 6) + len(_CUT)
        text = _CUT + text[len(_CUT) + drop :] if keep_end else text[: -drop - len(_CUT)] + _CUT
    return text


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
