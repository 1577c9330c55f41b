"""What a person sees of a step."""

from __future__ import annotations

import io

import pytest

from driver.cli.demo.show import show_end, show_step
from driver.cli.demo.story import Kind, Step
from driver.cli.tables import open_console


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _show(*lines: tuple[Kind, str], stream: io.StringIO | None = None) -> str:
    out = stream or io.StringIO()
    step = Step(number=3, name="publish", title="It publishes", lines=lines, facts={}, took_ms=12.4)
    show_step(open_console(out), step)
    return out.getvalue()


def test_a_step_has_a_number_a_title_and_its_time() -> None:
    assert _show(("text", "one"), ("aside", "two")) == " 3  It publishes  12 ms\n    one\n    two\n\n"


def test_text_is_wrapped_and_code_is_left_as_it_is() -> None:
    words, code = "word " * 40, "x" * 100 + "\n  y"
    shown = _show(("text", words), ("code", code)).splitlines()
    assert all(len(line) <= 80 for line in shown if "word" in line)
    assert "    " + "x" * 100 in shown
    assert "      y" in shown


def test_names_with_dashes_are_not_broken() -> None:
    assert "kube-scheduler" in _show(("text", "a " * 33 + "and kube-scheduler"))


@pytest.mark.parametrize(("kind", "colour"), [("good", "32"), ("bad", "31"), ("code", "36")])
def test_a_person_gets_colours_by_meaning(monkeypatch: pytest.MonkeyPatch, kind: Kind, colour: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert f"\x1b[{colour}m" in _show((kind, "x"), stream=_Terminal())


def test_markup_in_a_line_stays_text() -> None:
    assert "    [bold]x[/bold]\n" in _show(("text", "[bold]x[/bold]"))


def test_the_end_lines_commands_and_reasons_up() -> None:
    out = io.StringIO()
    show_end(open_console(out), 1.23, (("gpu-dra x", "why"), ("gpu-dra longer", "because")))
    assert out.getvalue() == (
        "Done in 1.2 s. Nothing is left behind. Try next:\n  gpu-dra x       why\n  gpu-dra longer  because\n"
    )
