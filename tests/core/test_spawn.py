import pytest

from durable.core.clock import SystemClock
from durable.core.spawn import QueueEmpty, ThreadSpawn


def test_a_thread_runs_its_target_and_ends():
    spawn = ThreadSpawn()
    done = spawn.event()
    thread = spawn.thread("worker", done.set)
    thread.join(5)

    assert done.is_set()
    assert not thread.is_alive()


def test_a_living_thread_is_seen_and_a_join_may_give_up():
    spawn = ThreadSpawn()
    gate = spawn.event()
    thread = spawn.thread("worker", gate.wait)
    thread.join(0)
    alive = thread.is_alive()
    gate.set()
    thread.join(5)

    assert alive
    assert not thread.is_alive()


def test_a_queue_hands_over_in_order_across_threads():
    spawn = ThreadSpawn()
    queue = spawn.queue()

    def send() -> None:
        for number in range(100):
            queue.put(number)

    spawn.thread("sender", send)

    assert [queue.get(5) for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("timeout_s", [0, 0.001, -1])
def test_an_empty_queue_says_so(timeout_s):
    with pytest.raises(QueueEmpty):
        ThreadSpawn().queue().get(timeout_s)


def test_a_queue_gives_what_is_there_without_waiting():
    queue = ThreadSpawn().queue()
    queue.put(None)

    assert queue.get(0) is None


def test_a_lock_is_held_by_one():
    lock = ThreadSpawn().lock()
    with lock:
        assert not lock.acquire(blocking=False)
    assert lock.acquire(blocking=False)


def test_an_event_is_lowered_again():
    event = ThreadSpawn().event()
    event.set()
    event.clear()

    assert not event.wait(0)


def test_the_clock_of_the_machine_counts_microseconds_and_goes_on():
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0)

    assert clock.monotonic() >= before
    assert 1_600_000_000_000_000 < clock.now_us() < 4_000_000_000_000_000
