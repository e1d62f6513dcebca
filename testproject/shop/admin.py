"""The shop in the admin: orders can be approved and rejected, everything else is for looking."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from testproject.shop.intake import decide
from testproject.shop.models import Charge, ChargeAttempt, Order, Product, Shipment


class ShopAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's class takes no parameter at run time
    """What the shop's pages share: the newest first."""

    ordering = ("-pk",)


@admin.register(Product)
class ProductAdmin(ShopAdmin):
    """Products and their stock."""

    list_display = ("sku", "name", "stock")


@admin.register(Order)
class OrderAdmin(ShopAdmin):
    """Orders and how far they are."""

    list_display = ("id", "customer", "product", "quantity", "total", "status")
    list_filter = ("status",)
    list_select_related = ("product",)
    search_fields = ("=id", "customer")
    actions = ("approve", "reject")

    @admin.action(description="Approve selected orders", permissions=["change"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        """Approve the orders that wait for it."""
        self._decide(request, queryset, approve=True)

    @admin.action(description="Reject selected orders", permissions=["change"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        """Reject the orders that wait for a decision."""
        self._decide(request, queryset, approve=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[Order], *, approve: bool) -> None:
        waiting = queryset.filter(status=Order.Status.WAITING)
        for order in waiting:
            decide(order.id, approve=approve, by=request.user.get_username())
        verb = "approved" if approve else "rejected"
        self.message_user(request, f"{len(waiting)} orders {verb}; a worker takes it from here.", messages.SUCCESS)


@admin.register(Charge)
class ChargeAdmin(ShopAdmin):
    """The payment ledger."""

    list_display = ("step_id", "order", "amount", "charged_at")
    list_select_related = ("order",)


@admin.register(ChargeAttempt)
class ChargeAttemptAdmin(ShopAdmin):
    """Each execution of the charge step's body."""

    list_display = ("step_id", "attempt", "worker", "outcome", "began_at")
    list_filter = ("outcome", "worker")


@admin.register(Shipment)
class ShipmentAdmin(ShopAdmin):
    """Parcels that have left."""

    list_display = ("tracking", "order", "quantity", "shipped_at")
    list_select_related = ("order",)
