"""The admission policy is made from the table that prepare reads configs with, so that both say the same words.

That a real API server takes it, and answers with exactly these words, is an end-to-end scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from driver.api.admission import build_faults
from driver.api.config_schema import (
    ByDevice,
    Choice,
    Fields,
    Kind,
    build_missing_words,
    build_only_with_words,
    build_unknown_words,
)
from driver.api.gpu_config import GPU_CONFIG, MIG_CONFIG, decode_config, list_schemas
from driver.errors import ConfigInvalid
from hack.docs.admission import render_config_policy
from tests.e2e import config_cases

POLICY = Path(__file__).parents[3] / "deploy" / "admission" / "refuse-wrong-configs.yaml"


def list_words(kind: Kind) -> Iterator[str]:
    """Everything that can be said of a value of this kind."""
    match kind:
        case Fields():
            yield build_unknown_words(kind.fields)
            for name, each in kind.fields.items():
                if name in kind.required:
                    yield build_missing_words(each)
                if name not in ("apiVersion", "kind"):
                    yield from list_words(each)
            for other, option in kind.only_with.values():
                yield build_only_with_words(other, option)
        case ByDevice():
            yield kind.key_words
            yield kind.value.words()
        case _:
            yield kind.words()


def test_the_file_is_the_one_that_the_table_makes() -> None:
    assert POLICY.read_text() == render_config_policy(), "run `make docs`"


@pytest.mark.parametrize("schema", [GPU_CONFIG, MIG_CONFIG], ids=["GpuConfig", "MigDeviceConfig"])
def test_every_word_of_prepare_is_in_the_policy(schema: Fields) -> None:
    expression = build_faults("c")
    missing = [words for words in list_words(schema) if words not in expression]
    assert missing == []


def test_every_kind_of_config_is_known_to_the_policy() -> None:
    expression = build_faults("c")
    for version, kind in list_schemas():
        assert f"== '{version}'" in expression
        assert f"== '{kind}'" in expression


def test_the_policy_judges_claims_templates_and_classes_of_this_driver() -> None:
    policy, binding = yaml.safe_load_all(POLICY.read_text())
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["resourceclaims", "resourceclaimtemplates", "deviceclasses"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    own = next(each["expression"] for each in policy["spec"]["variables"] if each["name"] == "own")
    assert "== 'gpu.nvidia.com'" in own


def test_a_choice_has_the_same_order_in_both() -> None:
    assert Choice(options=("b", "a")).words() == "is not one of b, a"


@pytest.mark.parametrize("name", list(config_cases.WRONG))
def test_what_the_scenario_calls_wrong_is_wrong(name: str) -> None:
    with pytest.raises(ConfigInvalid):
        decode_config(to_json(config_cases.WRONG[name]), name)


@pytest.mark.parametrize("name", list(config_cases.RIGHT))
def test_what_the_scenario_calls_right_is_right(name: str) -> None:
    decode_config(to_json(config_cases.RIGHT[name]), name)


def to_json(value: object) -> bytes:

    return json.dumps(value).encode()
