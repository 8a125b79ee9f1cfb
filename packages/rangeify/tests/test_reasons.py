"""Why each buffer of a schedule is there: worked examples with the reason of every buffer, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Config, Role, Tensor
from rangeify import functions as f
from rangeify.reasons import Candidate, Cause, Reason, Rule


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32))


def disagree(*readers: str) -> Cause:
    return Cause(Candidate.DISAGREE, readers)


def repeat(*readers: str) -> Cause:
    return Cause(Candidate.REPEAT, readers)


ASKED = Reason(Rule.OUTPUT)


def four_buffers_turned() -> list[Tensor]:
    z = tensor(4, 4) + tensor(4, 4, seed=1) + tensor(4, 4, seed=2) + tensor(4, 4, seed=3)
    return [z * z.T]


def three_buffers_turned() -> list[Tensor]:
    z = tensor(4, 4) + tensor(4, 4, seed=1) + tensor(4, 4, seed=2)
    return [z * z.T]


def marked() -> list[Tensor]:
    z = (tensor(4, 4) + 1).contiguous()
    return [z * z.T]


def row_maximum() -> list[Tensor]:
    x = tensor(4, 8)
    return [(x - x.max(1, keepdims=True)).sum(1)]


def softmax() -> list[Tensor]:
    return [f.softmax(tensor(32, 32))]


def two_products() -> list[Tensor]:
    return [(tensor(4, 8) @ tensor(8, 6)).relu() @ tensor(6, 5)]


def value_and_function_of_it() -> list[Tensor]:
    r = tensor(4, 8).sum(1)
    return [r, r.exp2()]


def long_reduction() -> list[Tensor]:
    return [tensor(32768).sum()]


def moved_write() -> list[Tensor]:
    x = tensor(6, 6)
    x[0:5] = x[1:6]
    return [x]


def many_buffers() -> list[Tensor]:
    total = tensor(8)
    for i in range(1, 6):
        total = total + tensor(8, seed=i)
    return [total]


def written_with_an_old_reader() -> list[Tensor]:
    x = tensor(6)
    old = x + 1
    x[0:2] = 5
    return [x, old]


def written_in_place() -> list[Tensor]:
    x = tensor(6)
    x[0:2] = 5
    return [x]


REDUCES = Rule.REDUCTION
#: name -> program, settings, and for every buffer that is no input its reason, in the order of the schedule
EXAMPLES: dict[str, tuple[Callable[[], list[Tensor]], dict[str, Any], list[Reason]]] = {
    "four buffers, turned": (
        four_buffers_turned,
        {},
        [ASKED, Reason(Rule.BUFFERS, "4", disagree("MUL"))],
    ),
    "three buffers, turned": (three_buffers_turned, {}, [ASKED]),
    "marked": (marked, {}, [ASKED, Reason(Rule.MARK)]),
    "maximum of rows": (row_maximum, {}, [ASKED, Reason(REDUCES, "", repeat("MUL"))]),
    "softmax": (
        softmax,
        {},
        [ASKED, Reason(REDUCES, "", repeat("MUL")), Reason(REDUCES, "", repeat("FDIV"))],
    ),
    "softmax by rows": (softmax, {"fusion": "rows"}, [ASKED]),
    "two products": (two_products, {}, [ASKED, Reason(REDUCES, "", repeat("MUL"))]),
    "a value and a function of it": (value_and_function_of_it, {}, [ASKED, ASKED]),
    "long reduction": (long_reduction, {}, [ASKED, Reason(Rule.SPLIT)]),
    "moved write": (moved_write, {}, [Reason(Rule.WRITE), Reason(Rule.HAZARD)]),
    "many buffers": (
        many_buffers,
        {"max_kernel_buffers": 4},
        [ASKED, Reason(Rule.LIMIT, "4"), Reason(Rule.LIMIT, "4")],
    ),
    "written, with an old reader": (
        written_with_an_old_reader,
        {},
        [Reason(Rule.FRESH), ASKED],
    ),
    "written in place": (written_in_place, {}, [Reason(Rule.WRITE)]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_buffer_has_the_expected_reason(name: str) -> None:
    """And the account of the schedule says it."""
    program, settings, want = EXAMPLES[name]
    schedule = rangeify.schedule(*program(), config=Config(**{"fusion": "reference", **settings}))
    assert [b.reason for b in schedule.buffers if b.role is not Role.INPUT] == want
    assert all((b.reason is None) == (b.role is Role.INPUT) for b in schedule.buffers)
    text = schedule.explain()
    for reason in want:
        assert f"stored because {reason}" in text
    assert rangeify.Schedule.from_json(schedule.to_json()).explain() == text


def test_the_account_names_readers_bytes_and_operations() -> None:
    schedule = rangeify.schedule(*row_maximum(), config=Config(fusion="reference"))
    assert schedule.explain().splitlines() == [
        f"kernel 0: {schedule.kernels[0].function_name} [4 x 8R]",
        "  reads in0 float32[4, 8]; writes t0 float32[4]",
        "  128 bytes in, 16 bytes out, 32 operations",
        "  stored because it reduces over a buffer and its readers (MUL) repeat it; read by 1",
        f"kernel 1: {schedule.kernels[1].function_name} [4 x 8R]",
        "  reads in0 float32[4, 8], t0 float32[4]; writes out0 float32[4]",
        "  144 bytes in, 16 bytes out, 68 operations",
        "  stored because it was asked for",
        "arena: 256 bytes for 1 temporaries of 16 bytes",
    ]


def test_the_page_shows_items_buffers_and_kernels() -> None:
    schedule = rangeify.schedule(*softmax(), config=Config(fusion="reference"))
    page = schedule.to_html("softmax")
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    order, kernels = data["groups"]
    assert [r["name"].partition(" [")[0] for r in kernels["rewrites"]] == [
        f"kernel {i}: {k.function_name}" for i, k in enumerate(schedule.kernels)
    ]
    (overview,) = order["rewrites"][0]["steps"]
    boxes = {row["op"]: row for row in data["nodes"] if "notes" in row}
    assert overview["size"] == len(boxes) == len(schedule.kernels) + len(schedule.buffers)
    stored = boxes["t0 float32[32]"]
    assert stored["notes"] == ["it reduces over a buffer", "its readers (MUL) repeat it"]
    (source,) = stored["src"]
    assert data["nodes"][source]["op"].startswith("kernel 0")


def test_several_results_end_in_one_box_and_an_empty_schedule_has_a_page() -> None:
    page = rangeify.schedule(*value_and_function_of_it()).to_html()
    assert '"op":"end"' not in page  # the second result reads the first
    assert '"op":"end"' in rangeify.schedule(tensor(3) + 1, tensor(4) + 1).to_html()
    assert "items" in rangeify.schedule(tensor(3)).to_html()


@pytest.mark.parametrize("data", [["NONE", "", None], ["MARK", ""], ["MARK", "", ["WHY", []]], None, 3])
def test_other_data_is_no_reason(data: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Reason.from_data(data)
    for reason in (ASKED, Reason(Rule.BUFFERS, "4", disagree("ADD", "MUL"))):
        assert Reason.from_data(json.loads(json.dumps(reason.to_data()))) == reason
