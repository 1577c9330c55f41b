"""From the sources to checked settings, or to one error that holds every fault."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from driver.config.setting import Setting
from driver.config.settings import GROUPS, Settings, declared
from driver.config.sources import CONFIG_FLAG, CONFIG_VARIABLE, Fault, Given, read_environment, read_file, read_flags
from driver.errors import SettingsInvalid

PRINT_FLAG = "--print-settings"
_NAMES, _CHECK = "names_of_settings", "check_settings"


def add_flags(
    parser: argparse.ArgumentParser, only: Collection[str] | None = None, *, check: Callable[[Settings], object] | None = None
) -> None:
    """Give a parser the flags of the settings (``only`` these), in groups, and ``--config`` and ``--print-settings``.

    ``check`` raises ``SettingsInvalid`` where settings are right one by one and do not go together.
    """
    names = tuple(each.name for each in declared() if only is None or each.name in only)
    parser.set_defaults(**{_NAMES: names, _CHECK: check})
    for group, title in GROUPS.items():
        chosen = [each for each in declared() if each.group == group and (only is None or each.name in only)]
        if not chosen:
            continue
        section = parser.add_argument_group(f"{group}: {title}")
        for each in chosen:
            section.add_argument(each.flag, metavar=each.metavar, default=argparse.SUPPRESS, help=_help(each))
    section = parser.add_argument_group("settings as a whole: default < config file < environment < flag")
    section.add_argument(
        CONFIG_FLAG,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help=f"a YAML file of settings, one `key: value` a line; the key of --node-name is nodeName [${CONFIG_VARIABLE}]",
    )
    section.add_argument(
        PRINT_FLAG,
        action="store_true",
        default=False,
        help="print every setting of this command and where it comes from, in the form of a config file, and end",
    )


def load(args: argparse.Namespace, environ: Mapping[str, str], *, required: Collection[str] = ()) -> Settings:
    """The settings of this process.

    Raises:
        SettingsInvalid: something in some source is wrong; the text has a line for each fault.
    """
    path = getattr(args, "config", None) or environ.get(CONFIG_VARIABLE)
    said = [*(read_file(path) if path else []), *read_environment(environ), *read_flags(args)]
    faults: list[Fault] = [each for each in said if isinstance(each, Fault)]
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    by_name = {each.name: each for each in declared()}
    for given in (each for each in said if isinstance(each, Given)):
        try:
            found[given.name] = by_name[given.name].parse(given.text)
        except ValueError as err:
            faults.append(Fault(where=given.where, what=str(err)))
        origins[given.name] = given.where
    faults += [_missing(by_name[name]) for name in required if name not in origins]
    if faults:
        raise SettingsInvalid(_sentence(faults))
    for each in declared():
        if each.name not in found:
            found[each.name] = each.derive(found) if each.derive is not None else each.default
            origins[each.name] = "default"
    return Settings(**found, origins=origins)


def encode_own_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """What a command with these flags would go by: ``encode_settings`` of its own settings.

    Raises:
        SettingsInvalid: it would refuse them.
    """
    settings = load(args, environ)
    check = getattr(args, _CHECK)
    if check is not None:
        check(settings)
    return encode_settings(settings, getattr(args, _NAMES))


def encode_settings(settings: Settings, only: Collection[str] | None = None) -> str:
    """The settings as a config file that says where each came from; what is unset is there as a comment."""
    lines = []
    for each, text in zip(declared(), settings.said().values(), strict=True):
        if only is not None and each.name not in only:
            continue
        origin = " ".join(settings.origins.get(each.name, "default").split())
        lines.append(f"{each.key}: {_quoted(text)}  # {origin}" if text else f"# {each.key}:  # {origin}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _help(each: Setting) -> str:
    default = each.default_shown or str(each.default or "none")
    return f"{each.help} (default: {default}) [{', '.join('$' + variable for variable in each.variables)}]".replace("%", "%%")


def _missing(each: Setting) -> Fault:
    return Fault(
        where=each.flag,
        what=f"is needed ({each.help}); give {each.flag}, ${' or $'.join(each.variables)}, or {each.key} in the config file",
    )


def _sentence(faults: Sequence[Fault]) -> str:
    if len(faults) == 1:
        return str(faults[0])
    return "\n".join([f"{len(faults)} settings are wrong:", *(f"  {fault}" for fault in faults)])
