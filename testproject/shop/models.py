"""The shop's tables: products, orders, what was charged and what was shipped."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from testproject.shop.orders import Outcome


class Product(models.Model):
    """Something on the shelf."""

    sku = models.CharField("SKU", max_length=32, primary_key=True)
    name = models.CharField(max_length=200)
    stock = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """An order, and how far it is."""

    class Status(models.TextChoices):
        """Say how far an order is."""

        PLACED = "placed"
        WAITING = "waiting for approval"
        SHIPPED = Outcome.SHIPPED.value
        REJECTED = Outcome.REJECTED.value
        SOLD_OUT = Outcome.SOLD_OUT.value
        CARD_REFUSED = Outcome.CARD_REFUSED.value

    id = models.BigIntegerField("number", primary_key=True)
    customer = models.CharField(max_length=200)
    address = models.TextField()
    product = models.ForeignKey(Product, models.PROTECT, related_name="orders")
    quantity = models.PositiveIntegerField()
    total = models.DecimalField(max_digits=12, decimal_places=2)
    note = models.TextField(blank=True)
    status = models.CharField(max_length=24, choices=Status.choices, default=Status.PLACED)
    placed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"Order {self.id}"


class Charge(models.Model):
    """A line of the payment ledger; the step id is its idempotency key: a step charges once, however often it runs."""

    step_id = models.CharField("step id", max_length=255, unique=True)
    order = models.ForeignKey(Order, models.PROTECT, related_name="charges")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    charged_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.amount} for order {self.order_id}"


class ChargeAttempt(models.Model):
    """One execution of the charge step's body: written when it begins, and again when it ends.

    A body whose process was killed leaves its outcome open.
    """

    class Outcome(models.TextChoices):
        """Say how an execution ended."""

        OPEN = "", "did not end"
        CHARGED = "charged"
        FOUND = "found charged"
        UNAVAILABLE = "provider unavailable"
        ANSWER_LOST = "answer lost"
        REFUSED = "card refused"

    step_id = models.CharField("step id", max_length=255)
    attempt = models.PositiveIntegerField()
    order = models.ForeignKey(Order, models.PROTECT, related_name="charge_attempts")
    worker = models.PositiveIntegerField("process id")
    outcome = models.CharField(max_length=24, choices=Outcome.choices, default=Outcome.OPEN, blank=True)
    began_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.step_id}, attempt {self.attempt}"


class Shipment(models.Model):
    """A parcel that has left."""

    tracking = models.UUIDField("tracking number", unique=True)
    order = models.ForeignKey(Order, models.PROTECT, related_name="shipments")
    quantity = models.PositiveIntegerField()
    shipped_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"Parcel of order {self.order_id}"
