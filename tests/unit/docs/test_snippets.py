"""How the blocks of a page are read, and how what they print is compared."""

from __future__ import annotations

import pytest

from hack.checks.snippets import Block, Step, choose_steps, find_faults, find_missing, parse_blocks

PAGE = """\
# A page

```sh e2e=one-node
kubectl get nodes
```

```text shown
node-a   Ready…
```

1. In a list:
   ```yaml
   a: 1
   ```

```sh local
gpu-dra --version
```
"""


def test_blocks_are_read_with_language_tags_text_and_line() -> None:
    assert parse_blocks(PAGE) == (
        Block(language="sh", tags=("e2e=one-node",), text="kubectl get nodes\n", line=3),
        Block(language="text", tags=("shown",), text="node-a   Ready…\n", line=7),
        Block(language="yaml", tags=(), text="a: 1\n", line=12),
        Block(language="sh", tags=("local",), text="gpu-dra --version\n", line=16),
    )


def test_steps_are_chosen_by_tag_with_what_they_show() -> None:
    first, last = parse_blocks(PAGE)[0], parse_blocks(PAGE)[3]
    assert choose_steps(PAGE, "e2e=one-node") == (Step(block=first, shown="node-a   Ready…\n"),)
    assert choose_steps(PAGE, "local") == (Step(block=last, shown=""),)
    assert first.stage == "one-node"
    assert last.stage == ""


@pytest.mark.parametrize(
    ("page", "faults"),
    [
        pytest.param(PAGE, (), id="a good page"),
        pytest.param(
            "```\nx\n```\n", ("1: a block of no language; there are json, promql, python, sh, text, yaml",), id="no language"
        ),
        pytest.param("```sh e2e\nx\n```\n", ("1: a block of sh has no tag e2e",), id="no stage"),
        pytest.param("```yaml local\nx\n```\n", ("1: a block of yaml has no tag local",), id="a tag of another language"),
        pytest.param(
            "```sh\nx\n```\n```text shown\ny\n```\n", ("4: it is shown by the block before, which nothing runs",), id="not run"
        ),
    ],
)
def test_wrong_fences_are_named(page: str, faults: tuple[str, ...]) -> None:
    assert find_faults(page) == faults


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        pytest.param("a\nb\n", "a\nx\nb\n", None, id="in order"),
        pytest.param("b\na\n", "a\nb\n", "a", id="out of order"),
        pytest.param("GPU 0: … (UUID: …)", "GPU 0: NVIDIA H100 (UUID: GPU-1)", None, id="an ellipsis"),
        pytest.param("NAME  READY\n", "NAME      READY\n", None, id="other spaces"),
        pytest.param("a.c\n", "abc\n", "a.c", id="a dot is a dot"),
        pytest.param("one line that\nis wrapped\n", "one line that is wrapped", None, id="wrapped otherwise"),
    ],
)
def test_what_is_shown_must_be_printed(shown: str, printed: str, missing: str | None) -> None:
    assert find_missing(shown, printed) == missing
