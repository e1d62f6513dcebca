"""Model fields of the store; they know nothing about runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def datetime_of(instant_us: int) -> datetime:
    """Turn microseconds since the epoch into an aware UTC datetime, exactly."""
    return EPOCH + timedelta(microseconds=instant_us)


def instant_of(moment: datetime) -> int:
    """Turn a datetime into microseconds since the epoch, exactly; a naive one counts as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


if TYPE_CHECKING:
    PlainInteger = models.BigIntegerField[Any, Any]
else:
    PlainInteger = models.BigIntegerField


class InstantField(PlainInteger):
    """An instant, stored as microseconds since the epoch and seen by the ORM as an aware UTC datetime.

    Integers compare alike on every database, which text and time zone types do not.
    """

    def deconstruct(self) -> Any:
        """Stand in migrations as the plain integer that it is, so that they import nothing of this app."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.BigIntegerField", args, kwargs

    def from_db_value(self, value: int | None, expression: Any, connection: BaseDatabaseWrapper) -> datetime | None:
        """Return the stored instant as a datetime."""
        return None if value is None else datetime_of(value)

    def get_prep_value(self, value: Any) -> Any:
        """Accept datetimes and plain microseconds in look-ups and writes."""
        return instant_of(value) if isinstance(value, datetime) else super().get_prep_value(value)

    def to_python(self, value: Any) -> Any:
        """Return a datetime for whatever a form or a fixture gives."""
        if value is None or isinstance(value, datetime):
            return value
        if isinstance(value, str) and not value.lstrip("-").isdigit():
            return datetime.fromisoformat(value)
        return datetime_of(int(value))
