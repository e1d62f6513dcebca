"""What the pages show: facts, escaped text, a fixed number of queries, nothing that a strict CSP forbids."""

import json
import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from durable.models import BufferedSignal, SignalWaiter, StepCheckpoint, TransportMessage, WorkflowRun
from tests.admin.conftest import LIST, NOON, QUEUED, SENT, add_checkpoints, build_run, make_run, page_of, retry_of

pytestmark = pytest.mark.django_db
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7|add:7 }}&amp;\u202e"
SIGNALS = "/admin/durable/bufferedsignal/"
WAITERS = "/admin/durable/signalwaiter/"
MESSAGES = "/admin/durable/transportmessage/"


@pytest.fixture
def client(client_of):
    return client_of("superuser")


def test_a_run_in_the_list(client):
    make_run(run_id="order:1", workflow="shop.checkout", version="3", status="failed", tags='["vip", "Zürich"]')
    make_run(run_id="order:2", status="suspended", waiting_on="signal approve:2", finished_at=None)

    text = client.get(LIST).text

    assert "order:1" in text
    assert "shop.<wbr>checkout@<wbr>3<wbr>" in text
    assert '<span class="durable-status durable-bad">failed</span>' in text
    assert "vip" in text
    assert "Zürich" in text
    assert "5.00 s" in text
    assert "2030-01-01" in text
    assert "signal approve:2" in text


def test_filters_and_search(client):
    make_run(run_id="order 1", status="failed")
    make_run(run_id="order 2", workflow="shop.checkout")
    make_run(run_id="2 order", status="dead")

    def found(query: str) -> set[str]:
        return {run.run_id for run in client.get(f"{LIST}?{query}").context["cl"].result_list}

    assert found("status__exact=failed") == {"order 1"}
    assert found("workflow=shop.checkout") == {"order 2"}
    assert found("q=order") == {"order 1", "order 2"}
    assert found("q=order 2") == {"order 2"}
    assert found("q=%25") == set()


def test_the_filter_offers_workflows_of_this_process_and_of_recent_runs(client):
    make_run(workflow="gone.workflow")

    text = client.get(LIST).text

    assert "?workflow=gone.workflow" in text
    assert "?workflow=tests_app.patient" in text


def test_ten_thousand_are_counted_and_no_more(client):
    WorkflowRun.objects.bulk_create(build_run() for _ in range(10_001))

    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = client.get(LIST)

    assert "10,000+ runs" in response.text
    assert "Only the newest 10,000" in response.text
    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"].upper()]
    assert len(counts) == 1
    assert "LIMIT 10001" in counts[0]


def test_digits_are_grouped_once(client, settings):
    settings.USE_THOUSAND_SEPARATOR = True
    WorkflowRun.objects.bulk_create(build_run() for _ in range(10_001))

    text = client.get(LIST).text

    assert "10,000 runs" in text
    assert "Only the newest 10,000" in text


def test_pages_cost_the_same_whatever_the_number_of_rows(client):
    def cost(address: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        return len(queries)

    def add_rows(number: int) -> None:
        runs = WorkflowRun.objects.bulk_create(build_run(status="suspended") for _ in range(number))
        SignalWaiter.objects.bulk_create(SignalWaiter(run=run, seq=0, token="go") for run in runs)
        BufferedSignal.objects.bulk_create(
            BufferedSignal(token="go", key=run.run_id, payload="1", **SENT, consumed_run=run.pk) for run in runs
        )
        TransportMessage.objects.bulk_create(
            TransportMessage(queue="runs", kind="wake", body="go", **QUEUED, run=run.pk) for run in runs
        )

    run = make_run()
    add_checkpoints(run, 10, input="1", output="2")
    other = make_run()
    add_checkpoints(other, 1000, input="1", output="2")
    add_rows(10)
    lists = (LIST, SIGNALS, WAITERS, MESSAGES)
    cost(page_of(run))  # fills what Django remembers
    few = [cost(address) for address in lists]
    add_rows(1000)

    assert [cost(address) for address in lists] == few
    assert cost(page_of(other)) == cost(page_of(run))
    assert max(few) <= 6


def test_lists_do_not_read_payloads(client):
    make_run(input='"x"')

    with CaptureQueriesContext(connection) as queries:
        client.get(LIST)

    rows = [query["sql"] for query in queries if '"durable_workflow_runs"."tags"' in query["sql"]]
    assert len(rows) == 1
    assert '"durable_workflow_runs"."input",' not in rows[0]


def test_the_page_of_a_run(client):
    error = {"kind": "ValueError", "code": "bad_card", "message": "declined", "traceback": "Traceback …\n  line 7"}
    run = make_run(run_id="order:1", status="failed", input='{"n":1}', error=json.dumps(error), recovery_attempts=2)
    add_checkpoints(run, 1, name="shop.charge", kind="remote", attempts=3, enqueued_at=NOON - timedelta(seconds=2))

    text = client.get(page_of(run)).text

    for shown in ("order:1", "tests_app.one_local_step@1", "ValueError [bad_card]: declined", "line 7", "shop.charge"):
        assert shown in text
    assert "12 ms" in text  # the step took
    assert "2.00 s" in text  # and had been queued
    assert re.search(r"<dt>Recoveries</dt>\s*<dd>2</dd>", text)
    assert '<th scope="row" class="durable-number">0</th>' in text


def test_a_long_payload_is_folded_and_a_short_one_is_not(client):
    run = make_run(input=json.dumps({"items": list(range(200))}), output='"short"')

    text = client.get(page_of(run)).text

    assert text.count("<details") == 1
    assert '<code class="durable-payload">&quot;short&quot;</code>' in text


def test_secrets_are_masked(client):
    payload = json.dumps({"card": {"api_key": "sk-1"}, "Password": "hunter2", "fine": "shown"})
    run = make_run(input=payload)
    add_checkpoints(run, 1, input=payload)
    signal = BufferedSignal.objects.create(token="go", key="k", payload=payload, **SENT)

    for address in (page_of(run), f"{SIGNALS}{signal.pk}/change/"):
        text = client.get(address).text
        assert "sk-1" not in text
        assert "hunter2" not in text
        assert "shown" in text


@pytest.mark.parametrize("payload", ["no json", "[" * 5000 + "]" * 5000, json.dumps("x" * 200_000), ""])
def test_odd_payloads_break_no_page(client, payload):
    run = make_run(input=payload, output=payload, error=payload, tags=payload[:10])
    add_checkpoints(run, 1, input=payload, output=payload, error=payload)

    response = client.get(page_of(run))

    assert response.status_code == 200
    assert len(response.content) < 150_000


def test_many_checkpoints_come_in_pages(client):
    run = make_run()
    add_checkpoints(run, 250)

    first, second, last = (client.get(page_of(run) + query) for query in ("", "?from=100", "?from=200"))

    assert [len(page.context["timeline"].rows) for page in (first, second, last)] == [100, 100, 50]
    assert '<a href="?from=100">' in first.text
    assert '<a href="?from=200">' in second.text
    assert '<a href="?">' in last.text
    assert "?from=" not in last.text


@pytest.mark.parametrize("query", ["?from=-1", "?from=x", "?from=99999999999999999999", "?from=²"])
def test_a_position_typed_by_hand_breaks_nothing(client, query):
    assert client.get(page_of(make_run()) + query).status_code == 200


def test_a_run_that_goes_on_shows_for_how_long(client):
    run = make_run(
        status="running", started_at=timezone.now() - timedelta(hours=3), finished_at=None, lease_owner="abc"
    )
    add_checkpoints(run, 1, kind="sleep", status="pending", wake_at=NOON, finished_at=None)

    text = client.get(page_of(run)).text

    assert "3 h …" in text
    assert "2030-01-01" in text
    assert "abc" in text


def hostile_rows() -> WorkflowRun:
    failure = json.dumps({"kind": HOSTILE, "code": HOSTILE, "message": HOSTILE, "traceback": HOSTILE})
    payload = json.dumps({HOSTILE: [HOSTILE, HOSTILE * 5]})
    run = make_run(
        run_id=HOSTILE,
        workflow=HOSTILE,
        version=HOSTILE[:60],
        namespace=HOSTILE,
        status="failed",
        note=HOSTILE,
        waiting_on=HOSTILE,
        tags=json.dumps([HOSTILE]),
        input=payload,
        output=HOSTILE,
        error=failure,
        lease_owner=HOSTILE[:60],
    )
    for seq, (name, error) in enumerate([(HOSTILE, failure), ("x", HOSTILE)]):
        StepCheckpoint.objects.create(
            run=run, seq=seq, name=name, kind="<b>kind", status="<b>status", input=payload, output=payload, error=error
        )
    BufferedSignal.objects.create(token=HOSTILE, key="k", payload=payload, **SENT)
    SignalWaiter.objects.create(run=run, seq=0, token=HOSTILE)
    TransportMessage.objects.create(
        queue=HOSTILE, kind="<b>kind", body=payload, held_by=HOSTILE[:60], **QUEUED, run=run.pk
    )
    return run


def hostile_pages(client, run: WorkflowRun) -> dict[str, str]:
    pages = [
        LIST,
        page_of(run),
        f"{LIST}?q=%3Cscript%3Ealert(1)",
        f"{LIST}{run.pk}/history/",
        SIGNALS,
        WAITERS,
        MESSAGES,
    ]
    for base, model in ((SIGNALS, BufferedSignal), (WAITERS, SignalWaiter), (MESSAGES, TransportMessage)):
        pages.append(f"{base}{model.objects.get().pk}/change/")
    texts = {page: client.get(page).text for page in pages}
    texts["after a retry"] = client.post(retry_of(run), follow=True).text
    texts["after a refusal"] = client.post(retry_of(run), follow=True).text
    return texts


def test_whatever_a_run_carries_is_text(client):
    run = hostile_rows()

    texts = hostile_pages(client, run)

    for page, text in texts.items():
        assert "<script>alert" not in text, page
        assert "<img src=x" not in text, page
        assert "<b>" not in text, page
        assert "{{ 14" not in text, page
        assert not re.search(r">\s*14&amp;amp;", text), page
    assert "&lt;script&gt;alert(1)" in texts[page_of(run)]


class Tags(HTMLParser):
    """Collects what a page makes a browser do."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_strict_content_security_policy_is_kept(client):
    texts = hostile_pages(client, hostile_rows())

    for page, text in texts.items():
        tags = Tags(text).found
        assert tags
        for tag, attributes in tags:
            assert tag != "style", page
            assert not any(name == "style" or name.startswith("on") for name in attributes), (page, tag, attributes)
            assert tag != "script" or "src" in attributes or attributes.get("type") == "application/json", page
            for address in (attributes.get("src"), attributes.get("href"), attributes.get("action")):
                scheme = re.match(r"[a-z]+:|//", address or "")
                assert scheme is None, (page, address)


@pytest.mark.urls("tests.admin.urls")
def test_another_admin_site_keeps_its_own_addresses(client):
    run = make_run(status="failed")
    SignalWaiter.objects.create(run=run, seq=0, token="go")

    page = f"/ops/durable/workflowrun/{run.pk}/change/"

    assert f"/ops/durable/workflowrun/{run.pk}/retry/" in client.get(page).text
    assert client.post(f"/ops/durable/workflowrun/{run.pk}/retry/")["Location"] == page
    assert f'href="{page}"' in client.get("/ops/durable/signalwaiter/").text


@pytest.mark.django_db(databases=["default", "other"])
def test_runs_are_read_and_retried_where_the_settings_put_the_store(client, settings):
    settings.DURABLE = {"DATABASE": "other"}
    run = build_run(status="failed", run_id="over-there")
    run.save(using="other", force_insert=True)

    assert "over-there" in client.get(LIST).text
    client.post(retry_of(run))

    run.refresh_from_db(using="other")
    assert run.status == "pending"
