"""A setting that no process takes as a flag cannot be set by anybody who reads its help."""

from __future__ import annotations

import argparse

from driver.cli import controller, kubelet_plugin
from driver.config.settings import GROUPS, declared, names_of


def _flags_of(*modules: object) -> set[str]:
    commands = argparse.ArgumentParser().add_subparsers()
    for module in modules:
        module.add_parser(commands)  # type: ignore[attr-defined]
    return {flag for parser in commands.choices.values() for action in parser._actions for flag in action.option_strings}


def test_the_two_processes_take_every_setting() -> None:
    """The flags of health were declared, explained, and refused."""
    flags = _flags_of(kubelet_plugin, controller)
    assert {f"--{each.name.replace('_', '-')}" for each in declared()} - flags == set()


def test_the_node_half_takes_all_that_is_not_the_controllers() -> None:
    flags = _flags_of(kubelet_plugin)
    own = names_of(*(group for group in GROUPS if group != "controller"))
    assert {f"--{name.replace('_', '-')}" for name in own} - flags == set()
