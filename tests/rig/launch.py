"""What a spawned process runs: `python -m tests.rig.launch COMMAND …`, a management command that dies with its parent.

SIGUSR1 makes the process print the stacks of all its threads, which a failed test shows.
"""

import faulthandler
import os
import signal
import sys

from tests.rig.postgres import die_with_parent


def main() -> None:
    """Run the management command named on the command line."""
    die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if os.getppid() == 1:  # the parent died before it was watched
        sys.exit("The test that started this process is gone.")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["django", *sys.argv[1:]])


if __name__ == "__main__":
    main()
