"""Pages of long tables: what is beyond 10,000 rows is not counted, because counting it reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    BasePaginator = Paginator[Any]
else:
    BasePaginator = Paginator

MOST_COUNTED = 10_000


class AtLeast(int):
    """A number that there are more than; it is shown with a plus."""

    def __str__(self) -> str:
        # Django groups digits after it has turned a number into text, which must then be nothing but digits.
        return str(int(self)) if settings.USE_THOUSAND_SEPARATOR else f"{int(self):,}+"


class CappedPaginator(BasePaginator):
    """Counts and pages through the first 10,000 rows."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most 10,000."""
        rows: Any = self.object_list
        counted: int = rows.order_by()[: MOST_COUNTED + 1].count()
        return AtLeast(MOST_COUNTED) if counted > MOST_COUNTED else counted

    @property
    def is_capped(self) -> bool:
        """Tell whether there are rows that no page shows."""
        return isinstance(self.count, AtLeast)
