from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from harness.generator.messages import Account, Progress, Report, Start, boot_id, dump, median, summed


def test_on_the_same_boot_the_start_is_the_same_instant() -> None:
    assert Start(t0_s=100.0, lead_s=0.5, boot_id="a").t0(now_s=99.8, boot_id="a") == 100.0


@pytest.mark.parametrize("now_s", [3.0, 99.8, 1e9])
def test_on_another_boot_the_start_counts_from_receipt(now_s: float) -> None:
    assert Start(t0_s=100.0, lead_s=0.5, boot_id="a").t0(now_s, boot_id="b") == now_s + 0.5


def test_a_boot_has_one_name() -> None:
    assert boot_id() == boot_id() != ""


def test_a_message_survives_the_way() -> None:
    report = Report(Account(1, 2, 3.0, 4.0, 5, 6, 7.0, 8, 9, 10), b"\x00\xff")
    carried = msgspec.msgpack.decode(msgspec.msgpack.encode(dump(report)))
    assert msgspec.convert(carried, Report) == report


def test_sums_keep_the_equation() -> None:
    reports = [Progress(0, 10, 2, 3, 1, 4, b""), Progress(1, 9, 0, 9, 0, 0, b"")]
    assert summed(reports) == {
        "planned": 19,
        "sent": 17,
        "unsent": 2,
        "completed": 12,
        "failed": 1,
        "in_flight": 4,
    }
    assert set(summed([]).values()) == {0}


@pytest.mark.parametrize(("values", "middle"), [([], None), ([3.0], 3.0), ([2.0, 1.0], 1.0), ([3, 1, 2], 2)])
def test_a_median_is_one_of_the_values(values: Sequence[float], middle: float | None) -> None:
    assert median(values) == middle
