"""The demo prints what its terminal can show."""

import io

from testproject.demo.screen import CLEAR_LINE, Screen
from testproject.demo.story import row_of, shown


def stream(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def printed(screen_stream):
    screen_stream.flush()
    return screen_stream.buffer.getvalue().decode(screen_stream.encoding)


def test_a_bar_is_drawn_in_ascii_where_nothing_else_is_known():
    output = stream("ascii")

    Screen(output).progress(1, 2, "ended")

    assert printed(output) == f"  {'#' * 12}{'.' * 12}   1 of 2 ended\n"


def test_text_that_cannot_be_encoded_is_escaped():
    output = stream("ascii")

    Screen(output).say("é")

    assert printed(output) == "\\xe9\n"


def test_a_log_gets_a_line_now_and_then():
    output = stream("utf-8")
    screen = Screen(output)

    for done in range(10):
        screen.progress(done, 10, "ended")

    assert printed(output).count("\n") == 1


def test_a_terminal_gets_one_line_that_moves():
    output = stream("utf-8")
    screen = Screen(output, is_terminal=True)

    for done in range(10):
        screen.progress(done, 10, "ended")
    screen.say("done")

    assert printed(output).count("\n") == 1
    assert printed(output).count(CLEAR_LINE) == 11


def test_no_bar_is_drawn_for_nothing():
    output = stream("utf-8")

    Screen(output).finish_progress(0, 0, "ended")

    assert "0 of 0 ended" in printed(output)


def test_columns_are_aligned():
    from decimal import Decimal

    rows = [row_of("Orders", "number", "total", indent=0), row_of("shipped", 7, Decimal("1234.5"))]

    assert len({len(row) for row in rows}) == 1
    assert rows[1].endswith("7      1,234.50")


def test_paths_are_relative_unless_that_leads_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert shown(tmp_path / "a" / "b") == "a/b"
    assert shown(tmp_path.parent) == str(tmp_path.parent)
