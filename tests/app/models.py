"""Tables that only the tests need; they have no migrations and are made with the test database."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Entry(models.Model):
    """A row that a workflow writes; nothing keeps it from being written twice."""

    key = models.CharField(max_length=255)
    text = models.TextField(default="")

    objects: ClassVar[models.Manager[Entry]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"
