"""Kubernetes' selector language for devices: compile once, ask for each device.

``compile_selector`` refuses what Kubernetes refuses, ``Selector.matches`` answers what kube-scheduler would, and ``build_view``
prepares a device once for all selectors.
"""

from driver.cel.device import DeviceView, build_view, build_view_of_values
from driver.cel.environment import Features
from driver.cel.errors import EvaluationError, SelectorError, SelectorRefused, Span
from driver.cel.hints import find_error_hint
from driver.cel.selector import Answer, Selector, check_admission, compile_selector
from driver.cel.terms import Explainer, TermAnswer

__all__ = [
    "Answer",
    "DeviceView",
    "EvaluationError",
    "Explainer",
    "Features",
    "Selector",
    "SelectorError",
    "SelectorRefused",
    "Span",
    "TermAnswer",
    "build_view",
    "build_view_of_values",
    "check_admission",
    "compile_selector",
    "find_error_hint",
]
