"""The parts of the shop's workflow, one by one."""

from unittest.mock import create_autospec
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.urls import reverse

from durable import Context, FatalError, StepContext, StepFailed, errors
from durable.authoring.current import step_context
from durable.core.clock import SystemClock
from durable.models import BufferedSignal, WorkflowRun
from testproject.shop import steps
from testproject.shop.intake import decide, place_order, stock_products
from testproject.shop.models import Charge, ChargeAttempt, Order, Product, Shipment
from testproject.shop.orders import APPROVAL_LIMIT, Decision, Outcome, read_orders, read_products
from testproject.shop.provider import EXPIRED_CARD, ProviderError, weather_of
from testproject.shop.workflows import fulfil
from tests.demo.factories import make_purchase

TRACKING = UUID(int=7)
IDS = range(5001, 6000)
SUNNY = next(each for each in IDS if not weather_of(each, 1).is_unavailable and not weather_of(each, 1).loses_answer)
CLOUDED = next(each for each in IDS if weather_of(each, 1).is_unavailable)
MUTE = next(each for each in IDS if weather_of(each, 1).loses_answer and not weather_of(each, 2).is_unavailable)


@pytest.fixture
def shelf(db):
    stock_products(read_products())


def placed(**facts):
    purchase = make_purchase(**facts)
    assert place_order(purchase)
    return purchase


def charge(purchase, *, attempt=1):
    context = StepContext(run_id=purchase.run_id, step_id=f"{purchase.run_id}:3", attempt=attempt, clock=SystemClock())
    with step_context(context):
        return steps.charge_card(purchase.id, purchase.total, purchase.card)


def status(purchase):
    return Order.objects.get(id=purchase.id).status


@pytest.mark.django_db
@pytest.mark.usefixtures("shelf")
class TestSteps:
    def test_reserving_takes_from_the_shelf(self):
        before = Product.objects.get(sku="TEA-EARL").stock

        assert steps.reserve_stock(placed(quantity=3))
        assert Product.objects.get(sku="TEA-EARL").stock == before - 3

    def test_what_is_not_there_is_sold_out(self):
        purchase = placed(sku="PEN-GOLD", quantity=6)

        assert not steps.reserve_stock(purchase)
        assert Product.objects.get(sku="PEN-GOLD").stock == 5
        assert status(purchase) == Outcome.SOLD_OUT

    def test_releasing_puts_back_what_was_reserved(self):
        purchase = placed()
        before = Product.objects.get(sku="TEA-EARL").stock
        steps.reserve_stock(purchase)

        steps.release_stock(purchase, Outcome.REJECTED)

        assert Product.objects.get(sku="TEA-EARL").stock == before
        assert status(purchase) == Outcome.REJECTED

    def test_a_step_that_runs_twice_charges_once(self):
        purchase = placed(id=SUNNY)

        receipts = [charge(purchase), charge(purchase)]

        assert receipts[0] == receipts[1]
        assert Charge.objects.get().amount == purchase.total
        assert list(ChargeAttempt.objects.order_by("id").values_list("outcome", flat=True)) == [
            "charged",
            "found charged",
        ]

    def test_an_unavailable_provider_charges_nothing(self):
        with pytest.raises(ProviderError):
            charge(placed(id=CLOUDED))

        assert not Charge.objects.exists()
        assert ChargeAttempt.objects.get().outcome == "provider unavailable"

    def test_a_lost_answer_is_found_by_the_next_attempt(self):
        purchase = placed(id=MUTE)
        with pytest.raises(ProviderError):
            charge(purchase)

        receipt = charge(purchase, attempt=2)

        assert receipt.step_id == Charge.objects.get().step_id

    def test_an_expired_card_is_refused_for_good(self):
        with pytest.raises(FatalError, match="expired"):
            charge(placed(card=EXPIRED_CARD))

        assert not Charge.objects.exists()

    def test_shipping_closes_the_order(self):
        purchase = placed()

        steps.ship(purchase, TRACKING)

        assert Shipment.objects.get().order_id == purchase.id
        assert status(purchase) == Outcome.SHIPPED


@pytest.mark.django_db
@pytest.mark.usefixtures("shelf")
class TestIntake:
    def test_an_order_that_is_placed_twice_has_one_run(self):
        purchase = placed()

        assert not place_order(purchase)
        assert WorkflowRun.objects.get().run_id == purchase.run_id

    def test_order_and_run_roll_back_together(self):
        with transaction.atomic():
            place_order(make_purchase())
            transaction.set_rollback(True)

        assert not Order.objects.exists()
        assert not WorkflowRun.objects.exists()

    @pytest.mark.parametrize("approve", [True, False])
    def test_a_decision_is_a_signal(self, approve):
        decide(7, approve=approve, by="Ada")

        assert BufferedSignal.objects.get().token == ("approve:7" if approve else "reject:7")

    def test_the_shipped_file_can_be_placed_as_it_is(self):
        purchases = {line.purchase.id: line.purchase for line in read_orders() if line.purchase is not None}
        for purchase in purchases.values():
            place_order(purchase)

        customers = dict(Order.objects.values_list("id", "customer"))

        assert customers == {each.id: each.customer for each in purchases.values()}


def context(*, enough=True, answer=None, charging=None):
    """Return a context in which every operation succeeds, unless told otherwise."""
    ctx = create_autospec(Context, instance=True)
    ctx.transaction.side_effect = lambda name, function, *args: enough if name == "reserve" else None
    ctx.wait_for_signal.side_effect = answer
    ctx.step.side_effect = charging
    return ctx


def done(ctx):
    return [call.args[0] for call in ctx.transaction.call_args_list]


class TestBody:
    expensive = staticmethod(lambda: make_purchase(id=7, total=APPROVAL_LIMIT + 1))

    def test_an_order_is_reserved_charged_and_shipped(self):
        ctx, purchase = context(), make_purchase()

        assert fulfil(ctx, purchase) is Outcome.SHIPPED
        assert done(ctx) == ["reserve", "ship"]
        ctx.step.assert_called_once_with(steps.charge_card, purchase.id, purchase.total, purchase.card)
        ctx.wait_for_signal.assert_not_called()

    def test_what_is_sold_out_is_not_charged(self):
        ctx = context(enough=False)

        assert fulfil(ctx, make_purchase()) is Outcome.SOLD_OUT
        ctx.step.assert_not_called()

    def test_a_gift_is_shipped_without_a_charge(self):
        ctx = context()

        assert fulfil(ctx, make_purchase(total=0)) is Outcome.SHIPPED
        ctx.step.assert_not_called()

    def test_the_limit_itself_needs_no_approval(self):
        ctx = context()

        fulfil(ctx, make_purchase(total=APPROVAL_LIMIT))

        ctx.wait_for_signal.assert_not_called()

    def test_an_approved_order_is_charged(self):
        ctx = context(answer=[("approve:7", Decision(by="Ada"))])

        assert fulfil(ctx, self.expensive()) is Outcome.SHIPPED
        assert done(ctx) == ["reserve", "ask", "ship"]
        ctx.wait_for_signal.assert_called_once_with("approve:7", "reject:7", type=Decision, timeout="7d")

    @pytest.mark.parametrize(
        "answer", [[("reject:7", Decision(by="Ada"))], errors.WaitTimeout(("approve:7", "reject:7"), 2)]
    )
    def test_a_rejected_or_forgotten_order_is_put_back(self, answer):
        ctx = context(answer=answer)

        assert fulfil(ctx, self.expensive()) is Outcome.REJECTED
        assert done(ctx) == ["reserve", "ask", "release"]
        ctx.step.assert_not_called()

    def test_a_refused_card_puts_the_goods_back(self):
        ctx = context(charging=StepFailed("shop.charge_card", "card_refused", "expired", 1))

        assert fulfil(ctx, make_purchase()) is Outcome.CARD_REFUSED
        assert done(ctx) == ["reserve", "release"]


@pytest.mark.django_db
@pytest.mark.usefixtures("shelf")
class TestAdmin:
    @pytest.fixture
    def staff(self, client):
        client.force_login(get_user_model().objects.create_superuser("ada", "", "secret"))
        return client

    @pytest.mark.parametrize("model", ["product", "order", "charge", "chargeattempt", "shipment"])
    def test_lists_are_shown(self, staff, model):
        steps.ship(placed(), TRACKING)

        assert staff.get(reverse(f"admin:shop_{model}_changelist")).status_code == 200

    def test_only_orders_that_wait_can_be_approved(self, staff):
        waiting, other = placed(), placed()
        steps.ask_for_approval(waiting.id)
        data = {"action": "approve", "_selected_action": [waiting.id, other.id]}

        response = staff.post(reverse("admin:shop_order_changelist"), data, follow=True)

        assert "1 orders approved" in response.content.decode()
        assert BufferedSignal.objects.get().token == f"approve:{waiting.id}"
