"""The floor: bare psycopg loops that write the same rows, with as many threads, and do nothing else."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

RUN = """
    INSERT INTO durable_workflow_runs (
        run_id, workflow, version, origin, namespace, partition, priority, status, note, waiting_on, tags,
        search_attributes, input, input_shape, generation, pending_seq, recovery_attempts, wake_at_us, lease_epoch,
        created_at_us, updated_at_us
    ) VALUES (
        %s, 'bare', '1', 'bare', 'default', '', 0, 'pending', '', '', '[]', '{}', 'null', 'none', 0, 1, 0, 1, 0, 1, 1
    )
    RETURNING id
"""
CLAIM = """
    UPDATE durable_workflow_runs
    SET status = 'running', wake_at_us = NULL, lease_owner = 'bare', lease_epoch = 1, lease_expires_at_us = 1
    WHERE id = %s
"""
END = "UPDATE durable_workflow_runs SET status = 'completed', output = 'null', lease_owner = NULL WHERE id = %s"
CHECKPOINT = """
    INSERT INTO durable_step_checkpoints (
        run_pk, seq, name, kind, status, input, output, attempts, started_at_us, finished_at_us
    ) VALUES (%s, %s, 'add', 'local', 'completed', '{"left":0,"right":1}', '1', 1, 1, 1)
"""
DISPATCH = """
    WITH run AS (UPDATE durable_workflow_runs SET status = 'suspended', wake_at_us = 1 WHERE id = %(run)s),
    step AS (
        INSERT INTO durable_step_checkpoints (run_pk, seq, name, kind, status, input, attempts, enqueued_at_us)
        VALUES (%(run)s, %(seq)s, 'increased', 'remote', 'pending', '0', 1, 1)
    )
    INSERT INTO durable_transport_messages (
        queue, kind, body, run_pk, seq, dedupe_key, namespace, priority, visible_at_us, takes, created_at_us
    ) VALUES ('bare', 'task', '{}', %(run)s, %(seq)s, %(key)s, 'default', 0, 1, 0, 1)
    RETURNING id
"""
TAKE = "UPDATE durable_transport_messages SET held_by = 'bare', held_until_us = 1, takes = 1 WHERE id = %s"
SETTLE = """
    WITH run AS (UPDATE durable_workflow_runs SET status = 'running' WHERE id = %(run)s),
    step AS (
        UPDATE durable_step_checkpoints SET status = 'completed', output = '1', finished_at_us = 1
        WHERE run_pk = %(run)s AND seq = %(seq)s
    )
    DELETE FROM durable_transport_messages WHERE id = %(message)s
"""
Work = Callable[[Any, int], None]


def write_empty_run(cursor: Any, number: int) -> None:
    """Write what a run without steps writes: start, claim, end."""
    run = _start(cursor, number)
    cursor.execute(CLAIM, (run,))
    cursor.execute(END, (run,))


def write_local_steps(cursor: Any, number: int) -> None:
    """Write the checkpoints of ten local steps."""
    for seq in range(10):
        cursor.execute(CHECKPOINT, (number, seq))


def write_dispatched_steps(cursor: Any, number: int) -> None:
    """Write what three dispatched steps write: dispatch, take, settle."""
    for seq in range(3):
        cursor.execute(DISPATCH, {"run": number, "seq": seq, "key": f"{number}:{seq}"})
        message = cursor.fetchone()[0]
        cursor.execute(TAKE, (message,))
        cursor.execute(SETTLE, {"run": number, "seq": seq, "message": message})


def _start(cursor: Any, number: int) -> int:
    cursor.execute(RUN, (f"bare-{number}",))
    key: int = cursor.fetchone()[0]
    return key


def measure(url: str, work: Work, *, threads: int, rounds: int) -> float:
    """Return how many rounds a second these threads do together, each on a connection of its own."""
    barrier = threading.Barrier(threads + 1)

    def loop(index: int) -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection, connection.cursor() as cursor:
            work(cursor, 1_000_000_000 + index)
            barrier.wait()
            for number in range(index, rounds, threads):
                work(cursor, number + 1)

    loops = [threading.Thread(target=loop, args=(index,)) for index in range(threads)]
    for each in loops:
        each.start()
    barrier.wait()
    began = time.perf_counter()
    for each in loops:
        each.join()
    return rounds / (time.perf_counter() - began)
