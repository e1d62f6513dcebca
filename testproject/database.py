"""The database by address: `sqlite:///file` or `postgresql://user:password@host:port/name`."""

from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

SQLITE_OPTIONS = {
    # Readers and the one writer do not stop each other; what was committed survives the death of the process.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    "timeout": 20,
    # A transaction takes the write lock as it begins, and waits for it, instead of failing when it writes later.
    "transaction_mode": "IMMEDIATE",
}


def settings_of(url: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for an address.

    A PostgreSQL server behind a Unix socket is named by its folder: `postgresql:///name?host=/run/postgresql`.

    Raises:
        ValueError: the address has a scheme other than `sqlite`, `postgres` and `postgresql`.
    """
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path).removeprefix("/"),
            "OPTIONS": dict(SQLITE_OPTIONS),
        }
    if parts.scheme in {"postgres", "postgresql"}:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path).removeprefix("/"),
            "USER": unquote(parts.username or query.get("user", "")),
            "PASSWORD": unquote(parts.password or query.get("password", "")),
            "HOST": unquote(parts.hostname or query.get("host", "")),
            "PORT": str(parts.port or query.get("port", "")),
        }
    message = f"A database address begins with sqlite:// or postgresql://, not with {parts.scheme or 'nothing'!r}."
    raise ValueError(message)


def url_of(settings: dict[str, Any]) -> str:
    """Return the address of an entry of `DATABASES`, so that another process can be told of it."""
    name = quote(str(settings["NAME"]))
    if settings["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{name}"
    facts = {key: str(settings.get(key.upper(), "")) for key in ("user", "password", "host", "port")}
    return f"postgresql:///{name}?{urlencode({key: value for key, value in facts.items() if value})}"
