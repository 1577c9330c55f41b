"""Figures that both halves keep alike."""

from __future__ import annotations

from prometheus_client import Counter

from driver.metrics.registry import MOST_VALUES, OTHER, FewValues, build_registry, render_page


def read_lines(component: str = "controller") -> list[str]:
    return render_page(build_registry(component), "").body.decode().splitlines()


def test_the_build_says_which_half_runs() -> None:
    (line,) = [line for line in read_lines("kubelet-plugin") if line.startswith("gpu_dra_build_info{")]
    assert line.startswith('gpu_dra_build_info{component="kubelet-plugin",version="')
    assert line.endswith("} 1.0")


def test_memory_threads_and_files_of_the_process_are_served_and_the_interpreters_figures_are_not() -> None:
    names = {line.partition(" ")[0] for line in read_lines()}
    assert {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"} <= names
    assert not {name for name in names if name.startswith("python_")}


def test_registries_share_nothing() -> None:
    first, second = build_registry("controller"), build_registry("controller")
    Counter("gpu_dra_test", "text", registry=first).inc()
    assert b"gpu_dra_test" in render_page(first, "").body
    assert b"gpu_dra_test" not in render_page(second, "").body


def test_the_scraper_chooses_the_form() -> None:
    page = render_page(build_registry("controller"), "application/openmetrics-text; version=1.0.0")
    assert page.content_type.startswith("application/openmetrics-text")
    assert page.body.endswith(b"# EOF\n")


def test_a_label_has_at_most_twenty_values_and_other() -> None:
    values = FewValues()
    seen = [values.bound(f"value {number}") for number in range(100)]
    assert seen[:MOST_VALUES] == [f"value {number}" for number in range(MOST_VALUES)]
    assert set(seen[MOST_VALUES:]) == {OTHER}


def test_a_value_that_is_known_stays_itself_when_there_are_too_many() -> None:
    values = FewValues({"known"}, most=2)
    assert [values.bound(each) for each in ("a", "b", "known", "a")] == ["a", OTHER, "known", "a"]
