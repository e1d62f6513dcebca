"""The examples of the pages, run: files go to a sample project, sessions run beside a real worker on SQLite."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, blocks, page_name
from tests.docs.sample import Sample

TUTORIAL = DOCS / "tutorial.md"
RUN = {"python", "pycon"}
FOR_USERS = [page for page in PAGES if page.parent == DOCS or page.name == "README.md"]
WITH_EXAMPLES = [
    page for page in FOR_USERS if page != TUTORIAL and any(block.language in RUN for block in blocks(page))
]


@pytest.fixture
def sample(tmp_path: Path):
    made = Sample(tmp_path)
    yield made
    made.close()


@pytest.mark.sqlite
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=page_name)
def test_examples_do_what_the_page_says(page, sample):
    found = blocks(page)
    sample.make([block for block in found if block.language == "python"])
    sample.start_worker()
    differences = []

    for block in found:
        if block.language == "pycon":
            differences.append(sample.run_python(block))
        if block.language == "console" and block.body.startswith("$ "):
            sample.run_commands(block)

    assert not any(differences), "\n".join(differences)


@pytest.mark.sqlite
@pytest.mark.timeout(180)
def test_the_tutorial_works_as_it_is_written(tmp_path):
    sample = Sample(tmp_path, module="bakery")
    differences = []
    try:
        for block in blocks(TUTORIAL):
            if block.language == "python":
                put = sample.write if block.file.endswith("settings.py") else sample.replace
                put(block.file, block.body)
            if block.language == "console":
                sample.run_commands(block)
            if block.language == "pycon":
                differences.append(sample.run_python(block))
    finally:
        sample.close()

    assert not any(differences), "\n".join(differences)
