"""``python -m hack.fuzz``: a thousand throws of each run at a plugin; says the seed, so that a run can be had again."""

from __future__ import annotations

import argparse
import sys
import time

from hack.fuzz.attacks import ATTACKS
from hack.fuzz.mutate import Mutator
from hack.fuzz.node import Broken, FuzzNode, fuzz_node

CHECK_EVERY = 50


def run(node: FuzzNode, names: list[str], count: int, seed: int) -> None:
    """``count`` throws, shared among the attacks.

    Raises:
        Broken: says the attack, the throw and the seed.
    """
    for name in names:
        share = max(1, count // len(names))
        started = time.monotonic()
        place = f"seed {seed}, {name}"
        try:
            for number, _ in zip(range(1, share + 1), ATTACKS[name](node, Mutator(seed)), strict=False):
                place = f"seed {seed}, {name}, throw {number}"
                if number % CHECK_EVERY == 0:
                    node.check(place)
            node.check(place)
        except Broken as err:
            raise Broken(f"{place}: {err}") from err
        print(f"{name:<10} {share:>5} throws, {time.monotonic() - started:5.1f} s: whole", flush=True)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """What to throw."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.fuzz", description="Throw hostile input at a running plugin, and see that it stays whole."
    )
    parser.add_argument("--seed", type=int, default=1, help="what everything follows from (default 1)")
    parser.add_argument("--count", type=int, default=1000, help="throws, shared among the attacks (default 1000)")
    parser.add_argument("--only", action="append", choices=list(ATTACKS), help="this attack; may be repeated")
    return parser.parse_args(argv)


if __name__ == "__main__":
    arguments = parse_arguments(sys.argv[1:])
    try:
        with fuzz_node() as fuzzed:
            run(fuzzed, arguments.only or list(ATTACKS), arguments.count, arguments.seed)
    except Broken as err:
        sys.exit(f"broken: {err}")
