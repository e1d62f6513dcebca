"""Who may see and do what: on pages, in bulk, and by addresses typed by hand."""

import pytest
from django.contrib.admin.models import LogEntry

from durable.models import BufferedSignal, SignalWaiter, TransportMessage
from tests.admin.conftest import LIST, PERMISSIONS, QUEUED, SENT, add_checkpoints, make_run, page_of, retry_of

pytestmark = pytest.mark.django_db
KINDS = ("anonymous", *PERMISSIONS, "superuser")
SEE = {"viewer", "auditor", "retrier", "superuser"}
SEE_PAYLOADS = {"auditor", "superuser"}
RETRY = {"retrier", "superuser"}
SECRET = "the-secret-payload"


def refused(kind: str) -> int:
    return 302 if kind == "anonymous" else 403


@pytest.mark.parametrize("kind", KINDS)
def test_who_sees_the_list_and_the_page(client_of, kind):
    run = make_run()
    client = client_of(kind)

    for address in (LIST, page_of(run)):
        assert client.get(address).status_code == (200 if kind in SEE else refused(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["bufferedsignal", "signalwaiter", "transportmessage"])
def test_who_sees_the_other_lists(client_of, kind, model):
    assert client_of(kind).get(f"/admin/durable/{model}/").status_code == (200 if kind in SEE else refused(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_retry(client_of, kind):
    run = make_run(status="failed")

    response = client_of(kind).post(retry_of(run))

    run.refresh_from_db()
    assert run.status == ("pending" if kind in RETRY else "failed")
    assert response.status_code == (302 if kind in RETRY else refused(kind))
    assert LogEntry.objects.count() == (kind in RETRY)


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_retry_in_bulk(client_of, kind):
    run = make_run(status="failed")

    client_of(kind).post(LIST, {"action": "retry_selected", "_selected_action": [run.pk], "index": 0})

    run.refresh_from_db()
    assert run.status == ("pending" if kind in RETRY else "failed")


@pytest.mark.parametrize("kind", sorted(SEE))
def test_the_retry_is_offered_to_those_who_may(client_of, kind):
    run = make_run(status="failed")
    client = client_of(kind)

    assert (retry_of(run) in client.get(page_of(run)).text) == (kind in RETRY)
    assert ("retry_selected" in client.get(LIST).text) == (kind in RETRY)


@pytest.mark.parametrize("status", ["pending", "running", "suspended", "blocked", "cancelling", "completed"])
def test_the_retry_is_offered_only_when_it_applies(client_of, status):
    run = make_run(status=status)

    assert retry_of(run) not in client_of("superuser").get(page_of(run)).text


@pytest.mark.parametrize("kind", sorted(SEE))
def test_payloads_are_for_those_who_may_see_them(client_of, kind):
    text = f'"{SECRET}"'
    run = make_run(input=text, output=text, error=text)
    add_checkpoints(run, input=text, output=text, error=text)
    signal = BufferedSignal.objects.create(token="go", key="k", payload=text, **SENT)
    message = TransportMessage.objects.create(queue="tasks:x", kind="task", body=text, **QUEUED, run=run.pk)
    client = client_of(kind)
    pages = {
        page_of(run): 6,
        f"/admin/durable/bufferedsignal/{signal.pk}/change/": 1,
        f"/admin/durable/transportmessage/{message.pk}/change/": 1,
    }

    for address, payloads in pages.items():
        text = client.get(address).text
        if kind in SEE_PAYLOADS:
            assert text.count(SECRET) >= payloads
        else:
            assert SECRET not in text
            assert "Can see inputs, outputs and errors" in text


@pytest.mark.parametrize(
    "query", ["input__contains=the", "error__startswith=t", "output=x", "checkpoints__input__contains=t", "id__gt=0"]
)
def test_payloads_cannot_be_guessed_by_filters(client_of, query):
    make_run(input=f'"{SECRET}"')

    response = client_of("viewer").get(f"{LIST}?{query}")

    assert response.status_code == 400


@pytest.mark.parametrize("kind", ["viewer", "superuser"])
def test_nothing_is_added_changed_or_deleted(client_of, kind):
    run = make_run()
    signal = BufferedSignal.objects.create(token="go", key="k", payload="1", **SENT)
    waiter = SignalWaiter.objects.create(run=run, seq=0, token="go")
    client = client_of(kind)
    rows = {"workflowrun": run.pk, "bufferedsignal": signal.pk, "signalwaiter": waiter.pk}

    for model, pk in rows.items():
        base = f"/admin/durable/{model}/"
        assert client.get(f"{base}add/").status_code == 403
        assert client.post(f"{base}{pk}/change/", {"status": "failed", "token": "x"}).status_code == 403
        assert client.post(f"{base}{pk}/delete/", {"post": "yes"}).status_code == 403
        assert "delete_selected" not in client.get(base).text
    run.refresh_from_db()
    assert run.status == "completed"


def test_a_forged_request_is_refused(client_of):
    run = make_run(status="failed")
    client = client_of("superuser")
    client.handler.enforce_csrf_checks = True

    assert client.post(retry_of(run)).status_code == 403
    run.refresh_from_db()
    assert run.status == "failed"


def test_the_retry_is_no_link(client_of):
    run = make_run(status="failed")

    assert client_of("superuser").get(retry_of(run)).status_code == 405
    run.refresh_from_db()
    assert run.status == "failed"


def test_an_unknown_run_is_not_found(client_of):
    client = client_of("superuser")

    assert client.post(f"{LIST}4711/retry/").status_code == 404
    assert client.get(f"{LIST}4711/change/").status_code == 302
