"""The story for people: numbered steps, colour on a terminal."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.text import Text

from driver.cli.demo.story import Kind, Step

_STYLES: dict[Kind, str] = {"text": "", "code": "cyan", "good": "green", "bad": "red", "aside": "dim"}
_INDENT = 4


def show_step(console: Console, step: Step) -> None:
    """One step, as soon as it is done."""
    head = Text(f"{step.number:>2}  {step.title}", style="bold")
    head.append(f"  {step.took_ms:.0f} ms", style="not bold dim")
    console.print(head)
    for kind, text in step.lines:
        lines = text.splitlines() if kind == "code" else textwrap.wrap(text, console.width - _INDENT, break_on_hyphens=False)
        for line in lines:
            console.print(Text(" " * _INDENT + line, style=_STYLES[kind]), soft_wrap=True)
    console.print()


def show_end(console: Console, total_s: float, next_steps: tuple[tuple[str, str], ...]) -> None:
    """What was seen, and what to try next."""
    console.print(Text(f"Done in {total_s:.1f} s. Nothing is left behind. Try next:", style="bold"))
    widest = max(len(command) for command, _ in next_steps)
    for command, why in next_steps:
        line = Text(f"  {command:<{widest}}  ", style="cyan")
        line.append(why, style="default")
        console.print(line, soft_wrap=True)
