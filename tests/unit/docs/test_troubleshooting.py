"""docs/troubleshooting.md quotes what the program says; texts of Kubernetes are compared with its binaries by ``make e2e``."""

from __future__ import annotations

import pytest

from hack.checks.messages import find_pattern, is_said, read_quotes, read_texts
from hack.checks.tree import REPOSITORY

PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text()
QUOTES = list(read_quotes(PAGE))
OURS = [text for text, owner in QUOTES if not owner]


@pytest.mark.parametrize("text", OURS)
def test_the_program_says_it(text: str) -> None:
    assert is_said(text, read_texts(REPOSITORY)), f"nothing in driver/ or the policies says {text!r}"


def test_quotes_are_found_with_who_says_them() -> None:
    page = "| you see | do |\n| --- | --- |\n| `a b` and `c` | `d` |\n| `x … y` (kubelet) | |\n| plain | |\n"
    assert list(read_quotes(page)) == [("a b", ""), ("c", ""), ("x … y", "kubelet")]


def test_a_text_that_nobody_says_is_found_out() -> None:
    texts = frozenset({"device … is held by …", "FenceLost"})
    assert is_said("is held by …", texts)
    assert is_said("FenceLost", texts)
    assert not is_said("Fence", texts)
    assert not is_said("is held for …", texts)


def test_a_text_of_go_has_its_verbs_for_ellipses() -> None:
    assert find_pattern("DRA driver … is not").search(b"xxDRA driver %s is not registered")


def test_the_page_has_texts_of_ours_and_of_kubernetes() -> None:
    assert len(OURS) > 60
    assert {owner for _, owner in QUOTES} == {"", "kubelet", "kube-scheduler", "kube-controller-manager", "kube-apiserver"}
