"""A thread whose first use of the database is the store's own transaction."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from durable.store.django_session import open_session


@pytest.mark.django_db(transaction=True)
def test_a_thread_may_begin_with_a_transaction():
    session = open_session("default")

    def write():
        with session.atomic():
            Group.objects.create(name="first")
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()

    assert Group.objects.filter(name="first").exists()
