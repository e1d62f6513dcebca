"""A project as `startproject` makes it, with its SQLite settings untouched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.rig.patience import wait_until
from tests.rig.postgres import die_with_parent
from tests.rig.processes import ROOT

PROCESSES = 4
ROUNDS = 20
WORKFLOWS = """
from durable import Context, workflow

def add(number: int) -> int:
    return number + 1

@workflow
def adding(ctx: Context, number: int) -> int:
    ctx.wait_for_signal(f"go:{ctx.run_id}")
    return ctx.local_step("add", add, number)
"""
CALLER = f"""
import sys, django
django.setup()
from django.contrib.auth.models import Group
from durable import api
name = sys.argv[1]
for number in range({ROUNDS}):
    run = api.start("site_flows.adding", number, id=f"{{name}}-{{number}}")
    Group.objects.create(name=run.id)
    api.signal(f"go:{{run.id}}")
    Group.objects.filter(name=run.id).update(name=f"{{run.id}} signalled")
    Group.objects.get(name=f"{{run.id}} signalled")
print("done")
"""
CHECK = """
import django
django.setup()
from durable import api
from durable.models import WorkflowRun
print("open", WorkflowRun.objects.exclude(status="completed").count(), "all", WorkflowRun.objects.count())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project and migrate it."""
    call_command("startproject", "site_config", str(tmp_path))
    flows = tmp_path / "site_flows"
    flows.mkdir()
    (flows / "__init__.py").touch()
    (flows / "workflows.py").write_text(WORKFLOWS)
    settings = tmp_path / "site_config" / "settings.py"
    text = settings.read_text().replace("INSTALLED_APPS = [", 'INSTALLED_APPS = [\n    "durable",\n    "site_flows",')
    settings.write_text(text)
    run(tmp_path, "-m", "django", "migrate", "--verbosity", "0").wait(60)
    return tmp_path


def run(project: Path, *args: str) -> subprocess.Popen[bytes]:
    """Run Python in the project; its output goes to a file named after the process."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")},
        "DJANGO_SETTINGS_MODULE": "site_config.settings",
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
        "PYTHONUNBUFFERED": "1",
    }
    log = project / f"{len(list(project.glob('*.log')))}.log"
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", *args],
            cwd=project,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # nothing of the child's own runs before it
        )


@pytest.mark.sqlite
def test_nobody_meets_a_locked_database(project: Path):
    worker = run(project, "-m", "django", "durable_work")
    try:
        callers = [run(project, "-c", CALLER, f"caller-{index}") for index in range(PROCESSES)]
        codes = [caller.wait(50) for caller in callers]

        def all_completed() -> bool:
            check = run(project, "-c", CHECK)
            check.wait(20)
            newest = max(project.glob("*.log"), key=lambda log: int(log.stem))
            return f"open 0 all {PROCESSES * ROUNDS}" in newest.read_text()

        wait_until(all_completed, timeout=30, interval=0.5, what="all runs to complete")
        worker.send_signal(signal.SIGTERM)
        codes.append(worker.wait(20))
    finally:
        worker.kill()
        worker.wait(10)
    output = "\n".join(log.read_text() for log in sorted(project.glob("*.log")))

    assert "OperationalError" not in output, output
    assert codes == [0] * (PROCESSES + 1), output
    assert "Traceback" not in output, output
