"""Fresh random cases to kube-scheduler's filters and ours: ``python -m hack.oracle_fit.compare COUNT SEED --oracle FILE``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from hack.oracle_fit.cases import build_case
from tests.unit.controller.deciding.fit_oracle import judge, translate


def main() -> int:
    """Compare; exit code 1 where anything is judged differently."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--oracle", type=Path, required=True, help="the built main.go")
    args = parser.parse_args()
    text = "".join(json.dumps(build_case(number, args.seed)) + "\n" for number in range(args.count))
    answers = subprocess.run([args.oracle], input=text, capture_output=True, text=True, check=True).stdout
    tally: Counter[str] = Counter()
    for line in answers.splitlines():
        case = json.loads(line)
        ours, theirs = judge(case), translate(case["kubernetes"])
        tally["fits" if not theirs else "does not fit"] += 1
        if ours != theirs:
            tally["WRONG"] += 1
            print(f"{case['id']}: kubernetes says {theirs}, ours {ours}")
    print(json.dumps(tally, indent=2))
    return 1 if tally["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
