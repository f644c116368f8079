"""Pins and a bystander's wait: from what was collected to what is reported."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness import held
from harness.run import HandlerPins


def test_pins_are_added_up_and_told_apart() -> None:
    stack = ("servers/hold.py:58 hold",)
    found = held.pins(
        {
            "/hold/plain": HandlerPins(count=2, seconds=0.004, stacks=(stack,)),
            "main": HandlerPins(count=1, seconds=0.5),
        },
        requests=100,
    )
    assert (found.count, found.per_request) == (3, 0.03)
    assert found.seconds == pytest.approx(0.504)
    assert found.handlers["/hold/plain"] == HandlerPins(
        count=2, seconds=0.004, per_request=0.02, stacks=(stack,)
    )


def test_no_pins_are_a_finding_and_nothing_completed_is_none() -> None:
    assert held.pins({}, 100).per_request == 0
    assert held.pins({}, 0).per_request is None


def test_only_probes_of_the_window_count_and_an_unanswered_one_as_its_time_out() -> None:
    due_s = np.arange(-10, 30) / 10.0
    latency_s = np.full(40, 0.002)
    latency_s[:10] = 4.0  # before the window
    latency_s[15] = 0.7
    latency_s[[20, 21]] = math.nan
    found = held.bystander("/health", due_s, latency_s, (0.0, 2.0))
    assert (found.n, found.unanswered, found.route) == (20, 2, "/health")
    assert (found.p50, found.max) == (0.002, held.PROBE_TIMEOUT_S)
    assert found.p99 is None, "20 values carry none"


def test_a_pod_that_stood_still_has_a_median_of_the_time_out_and_no_more() -> None:
    due_s, nothing = np.arange(400) / 10.0, np.full(400, math.nan)
    found = held.bystander("/health", due_s, nothing, (0.0, 40.0))
    assert (found.n, found.unanswered) == (400, 400)
    assert found.p50 == found.p99 == found.max == held.PROBE_TIMEOUT_S


def test_nobody_asked_is_no_wait() -> None:
    found = held.bystander("/health", np.empty(0), np.empty(0), (0.0, 1.0))
    assert (found.n, found.p50, found.max) == (0, None, None)
