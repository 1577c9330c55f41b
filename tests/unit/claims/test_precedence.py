"""Which config applies to which request."""

from __future__ import annotations

import pytest

from driver.claims.precedence import SourcedConfig, base_request, choose_config


def sourced(position: int, source: str, requests: tuple[str, ...], config: str) -> SourcedConfig[str]:
    return SourcedConfig(position=position, source=source, requests=requests, config=config)


def chosen(configs: list[SourcedConfig[str]], request: str) -> str | None:
    winner = choose_config(configs, request)
    return winner.config if winner else None


def test_b61_an_empty_list_of_requests_means_all() -> None:
    """B61: from 1.37 on the scheduler itself empties the list when a config applies to every request."""
    configs = [sourced(0, "FromClass", (), "TimeSlicing"), sourced(1, "FromClaim", ("b",), "MPS")]
    assert {request: chosen(configs, request) for request in ("a", "b")} == {"a": "TimeSlicing", "b": "MPS"}


@pytest.mark.parametrize(
    ("configs", "winner"),
    [
        pytest.param([], None, id="none"),
        pytest.param([sourced(0, "FromClass", (), "class")], "class", id="only the class"),
        pytest.param(
            [sourced(0, "FromClaim", (), "claim"), sourced(1, "FromClass", (), "class")],
            "claim",
            id="claim beats class wherever it stands",
        ),
        pytest.param([sourced(0, "FromClaim", (), "1"), sourced(1, "FromClaim", (), "2")], "2", id="the later of two wins"),
        pytest.param(
            [sourced(0, "FromClaim", ("a",), "1"), sourced(1, "FromClaim", (), "2")],
            "2",
            id="naming a request is no precedence",
        ),
        pytest.param(
            [sourced(1, "FromClaim", (), "2"), sourced(0, "FromClaim", (), "1")],
            "2",
            id="the order is the allocation's, not the list's",
        ),
        pytest.param(
            [sourced(0, "FromClass", (), "class"), sourced(1, "FromClaim", ("b",), "claim")],
            "class",
            id="a config of another request",
        ),
    ],
)
def test_claim_beats_class_and_later_beats_earlier(configs: list[SourcedConfig[str]], winner: str | None) -> None:
    assert chosen(configs, "a") == winner


@pytest.mark.parametrize(
    ("requests", "request_name", "applies"),
    [
        (("a",), "a/b", True),
        (("a/b",), "a/b", True),
        (("a/b",), "a/c", False),
        (("a/b",), "a", False),
        (("a",), "ab", False),
        (("b",), "a/b", False),
        ((), "a/b", True),
    ],
    ids=["parent", "itself", "sibling", "only a sub-request", "a longer name", "name of the sub-request alone", "all"],
)
def test_sub_requests_are_reached_by_their_own_name_and_their_parents(
    requests: tuple[str, ...], request_name: str, applies: bool
) -> None:
    assert sourced(0, "FromClaim", requests, "x").applies_to(request_name) is applies


def test_a_config_names_only_what_it_lists() -> None:
    assert not sourced(0, "FromClaim", (), "x").names("a")
    assert sourced(0, "FromClaim", ("a",), "x").names("a/b")


def test_the_kubelet_knows_requests_without_the_sub_request() -> None:
    assert [base_request(name) for name in ("gpus", "gpus/tight")] == ["gpus", "gpus"]
