"""``docs/cli.md``, from the programs' own parsers and settings."""

from __future__ import annotations

import argparse

from driver.cli.gpu.main import build_parser as build_gpu_parser
from driver.cli.main import build_parser
from driver.config.load import PRINT_FLAG
from driver.config.setting import Setting
from driver.config.settings import GROUPS, declared
from driver.config.sources import CONFIG_FLAG, CONFIG_VARIABLE

_HEAD = """\
# The command line

<!-- Made by `python -m hack.docs` from driver/cli and driver/config. Change those, not this page. -->

One program, `gpu-dra`: after `make setup` it is `.venv/bin/gpu-dra`, and `. .venv/bin/activate` puts it on the PATH, with
[`kubectl gpu`](#kubectl-gpu), which is for people with a cluster. Exit codes, the names of flags, variables and keys, and JSON
are stable interfaces: they are added to, never changed. `gpu-dra COMMAND --help` says the same as this page. stdout has the
result and nothing else; what is worth saying goes to stderr. Every command takes `--debug`, which shows where in the program an
error comes from.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed; stderr says what was being done, to what, and what to look at next |
| 2 | the command line, the environment, the config file or a machine file is wrong; stderr lists every fault |
| 3 | another driver of the same name publishes this node's devices |
| 4 | the controller lost its lease; start it again, it stands by |
| 130 | interrupted (Ctrl-C) |
| 141 | the reader of the output went away |

"""
_SETTINGS = f"""\
## Settings

Each setting has a flag, an environment variable and a key in the config file. Later ones win: default, config file,
environment, flag. An empty variable counts as unset. A key or a `GPU_DRA_` variable that is no setting is refused, with the
nearest one that is. All faults of all sources are told at once.

The config file is named by `{CONFIG_FLAG}` or `${CONFIG_VARIABLE}`: YAML, one `key: value` a line, paths absolute.
`{PRINT_FLAG}` prints all settings of a command and where each comes from, if it would start with them, in the form of
such a file.

```yaml
nodeName: node-a
driverRoot: /run/nvidia/driver
healthAddress: :51515
```

"""
_TABLE = """\
| flag | variable | key | meaning | default |
| --- | --- | --- | --- | --- |
"""


def render_cli_page() -> str:
    """The whole page."""
    _, commands = build_parser()
    parts = [_HEAD]
    parts += [_command(f"## gpu-dra {name}", parser, _flags(parser)) for name, parser in commands.choices.items()]
    gpu, gpu_commands = build_gpu_parser()
    parts.append(f"## kubectl gpu\n\n{gpu.description}\n\n```text\n{gpu.epilog}\n```\n\n")
    for name, parser in gpu_commands.choices.items():
        parts.append(_command(f"### kubectl gpu {name}", parser, _list_flags(_own_actions(parser, set()))))
    parts.append(_SETTINGS)
    for group, title in GROUPS.items():
        rows = "".join(_row(each) for each in declared() if each.group == group)
        parts.append(f"### {group.capitalize()}: {title}\n\n{_TABLE}{rows}\n")
    return "".join(parts).rstrip("\n") + "\n"


def _command(heading: str, parser: argparse.ArgumentParser, flags: str) -> str:
    return f"{heading}\n\n{parser.description}\n\n{flags}```text\n{parser.epilog}\n```\n\n"


def _own_actions(parser: argparse.ArgumentParser, settings: set[str]) -> list[argparse.Action]:
    """What the command takes that is no setting."""
    others = {CONFIG_FLAG, PRINT_FLAG, "--help", "--debug", *settings}
    return [action for action in parser._actions if not others & set(action.option_strings)]


def _list_flags(actions: list[argparse.Action]) -> str:
    return "".join(_flag(action) for action in actions) + "\n"


def _flag(action: argparse.Action) -> str:
    names = f"`{', '.join(action.option_strings)}`{_value(action)}" if action.option_strings else f"`{action.metavar}`"
    return f"- {names}: {action.help}\n"


def _flags(parser: argparse.ArgumentParser) -> str:
    settings = {each.flag for each in declared()}
    taken = [flag for action in parser._actions for flag in action.option_strings if flag in settings]
    lines = [_flag(action) for action in _own_actions(parser, settings)]
    if len(taken) == len(settings):
        lines.append("- all [settings](#settings)\n")
    elif taken:
        lines.append(f"- of the [settings](#settings): {', '.join(f'`{flag}`' for flag in taken)}\n")
    return "".join(lines) + "\n" if lines else ""


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        return f" `{'|'.join(action.choices)}`"
    return "" if action.nargs == 0 else f" `{action.metavar}`"


def _row(each: Setting) -> str:
    variables = ", ".join(f"`{variable}`" for variable in each.variables)
    default = each.default_shown or (f"`{each.default}`" if each.default else "none")
    cells = (f"`{each.flag} {each.metavar}`", variables, f"`{each.key}`", each.help, default)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"
