"""What an example runs in: a Python shell of a sample project. Reads examples as lines of JSON, answers what differed.

``python -m tests.docs.session``, with the settings of the project in the environment.
"""

import doctest
import io
import json
import sys

import django


def main() -> None:
    """Run the examples that come, in one namespace."""
    django.setup()
    names: dict[str, object] = {"__name__": "__console__"}
    parser = doctest.DocTestParser()
    for line in sys.stdin:
        request = json.loads(line)
        example = parser.get_doctest(request["body"], names, request["at"], request["page"], request["line"])
        example.globs = names
        report = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        failed = runner.run(example, out=report.write, clear_globs=False).failed
        sys.stdout.write(json.dumps({"failed": failed, "report": report.getvalue()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
