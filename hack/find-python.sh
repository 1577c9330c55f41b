#!/usr/bin/env bash
# Prints a Python of 3.11 or later: the one given, or the first that is found.
set -euo pipefail
oldest='import sys; sys.exit(sys.version_info < (3, 11))'

if [ $# -gt 0 ]; then
    "$1" -c "$oldest" || { echo "looking for Python: $1 is not Python 3.11 or later" >&2; exit 1; }
    command -v "$1"
    exit
fi
for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null && "$name" -c "$oldest" 2>/dev/null; then
        command -v "$name"
        exit
    fi
done
echo "looking for Python: none of 3.11 or later is in PATH; install one, or name it: make setup PYTHON=/path/to/python3.11" >&2
exit 1
