"""What all pages of this app share: nothing is added, changed or deleted here, and lists stay quick on long tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from durable.admin import display
from durable.admin.counting import CappedPaginator
from durable.conf import get_config

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

VIEW_PAYLOAD = "durable.view_payload"


class LeanChangeList(ChangeList):
    """A list that does not read the payloads of its rows."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Leave out what no list shows."""
        heavy = self.model_admin.heavy_fields  # type: ignore[attr-defined]  # set below
        return super().get_queryset(request, exclude_parameters).defer(*heavy)


class ReadOnlyAdmin(ModelAdmin):
    """Lists and shows rows of the store.

    Attributes:
        heavy_fields: Large columns, which lists do not read.
        lookups: Parameters by which a list may be filtered. Others are refused: with a free choice of look-ups a user
            could ask for payloads that the permissions hide, one letter after the other.
        prefix_field: What a search looks at, from its beginning, so that an index serves it.
    """

    heavy_fields: Sequence[str] = ()
    lookups: frozenset[str] = frozenset()
    prefix_field: str = ""
    ordering = ("-id",)
    sortable_by = ()
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator
    view_on_site = False

    class Media:
        css = {"all": ("durable/admin.css",)}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Read from the store's database."""
        return super().get_queryset(request).using(get_config().database)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that leaves payloads alone."""
        return LeanChangeList

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Show the search where there is something to search by."""
        return (self.prefix_field,) if self.prefix_field else ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find what begins with the term as it was typed, spaces included."""
        term = search_term.strip()
        return (queryset.filter(**{f"{self.prefix_field}__startswith": term}) if term else queryset), False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow only what the filters of the page use."""
        return lookup in self.lookups

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: rows are made by the engine."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: rows are changed by the engine."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: rows of a run belong together."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Ask for ``view`` alone; a permission to change opens nothing here."""
        return request.user.has_perm(f"durable.view_{self.opts.model_name}")


def may_view_payload(request: HttpRequest) -> bool:
    """Tell whether the user may see inputs, outputs and errors."""
    return request.user.has_perm(VIEW_PAYLOAD)


def shown_payload(text: str | None) -> str:
    """Return a payload as the settings allow it to be shown."""
    return display.payload(text, get_config().redact)


def shown_error(text: str | None) -> str:
    """Return an error as the settings allow it to be shown."""
    return display.error(text, get_config().redact)
