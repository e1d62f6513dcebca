"""Every page: its Python is Python, its links lead somewhere, its commands exist."""

import ast
import configparser
import shlex

import pytest
from django.core.management import get_commands, load_command_class

from tests.docs.pages import DOCS, FENCE, LINK, PAGES, ROOT, anchors, blocks, commands, page_name

FOR_USERS = [page for page in PAGES if page.parent == DOCS or page.name == "README.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=page_name)
each_page_for_users = pytest.mark.parametrize("page", FOR_USERS, ids=page_name)


@each_page
def test_python_in_a_page_is_python(page):
    for block in blocks(page):
        if block.language in {"python", "py"}:
            ast.parse(block.body, filename=str(block))


@each_page_for_users
def test_python_in_a_page_for_users_is_run(page):
    loose = [str(block) for block in blocks(page) if block.language == "python" and not block.file.endswith(".py")]

    assert not loose, "name the file of the sample project after ```python, or write a session as ```pycon"


@each_page
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    dead = []
    for target in (match["target"] for match in LINK.finditer(text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, fragment = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists() or (fragment and path.suffix == ".md" and fragment not in anchors(path)):
            dead.append(target)

    assert not dead


@each_page_for_users
def test_every_page_is_reached_from_the_index(page):
    links = {match["target"].split("#")[0] for match in LINK.finditer((DOCS / "index.md").read_text(encoding="utf-8"))}

    assert page.name in {"README.md", "index.md"} or page.name in links


@each_page
def test_commands_in_a_page_exist(page):
    environments = tox_environments()
    for block in blocks(page):
        if block.language != "console":
            continue
        for command in commands(block):
            words = shlex.split(command.text.replace("&", " "), comments=True)
            if words[:2] in (["python", "manage.py"], ["python", "testproject/manage.py"]) and len(words) > 2:
                check_command(words[2], words[3:], command.at)
            if words[:2] == ["tox", "-e"]:
                assert words[2] in environments, f"{command.at}: tox has no environment {words[2]!r}"


def check_command(name, args, at):
    application = get_commands().get(name)
    assert application is not None, f"{at}: there is no command {name!r}"
    if application != "durable":
        return
    parser = load_command_class(application, name).create_parser("manage.py", name)
    try:
        parser.parse_args(args)
    except (SystemExit, Exception) as error:  # noqa: BLE001  # argparse leaves, Django raises
        pytest.fail(f"{at}: {name} does not take {args}: {error}")


def tox_environments():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    named = {section.removeprefix("testenv:") for section in parser.sections()}
    return named | {each.strip() for each in parser["tox"]["env_list"].split(",")}
