"""Fresh random cases through both allocators: ``python -m hack.oracle_allocator.compare COUNT SEED --oracle FILE``.

Says every case in which Kubernetes finds a placement and ours does not, and every one in which ours is illegal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from hack.oracle_allocator.cases import build_case
from hack.oracle_allocator.mig_cases import build_mig_case
from tests.unit.allocator.legality import find_faults
from tests.unit.allocator.oracle_cases import solve


def main() -> int:
    """Compare; exit code 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mig", action="store_true", help="GPUs that claims divide")
    parser.add_argument("--oracle", type=Path, required=True, help="the built main.go")
    args = parser.parse_args()
    build = build_mig_case if args.mig else build_case
    text = "".join(json.dumps(build(number, args.seed)) + "\n" for number in range(args.count))
    answers = subprocess.run([args.oracle], input=text, capture_output=True, text=True, check=True).stdout
    tally: Counter[str] = Counter()
    for line in answers.splitlines():
        case = json.loads(line)
        theirs = case["kubernetes"].get("results")
        mine, is_sure = solve(case)
        faults = find_faults(case, mine) if mine is not None else []
        what = f"kubernetes {'places' if theirs else 'does not place'}, ours {'places' if mine else 'does not place'}"
        tally[what if is_sure else f"{what} (not sure)"] += 1
        if faults or (theirs and not mine):
            tally["WRONG"] += 1
            print(f"{case['id']}: {what}; {'; '.join(faults)}")
    print(json.dumps(tally, indent=2))
    return 1 if tally["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
