"""How far a run is, and about how long it takes on."""

from __future__ import annotations

import pytest

from synth.services.course import Course


def watched(course: Course, *told: tuple[float, str, int, int]) -> list[str]:
    """Tell a course what somebody saw, and return what it said was left each time."""
    said = []
    for seconds, phase, step, of in told:
        course.tell(seconds, phase, step, of)
        said.append(course.left)
    return said


def test_a_fit_that_counts_steps_says_what_is_left_of_the_whole_run() -> None:
    course = Course(columns=15, rows=10_000, owner_report=False)
    said = watched(
        course,
        *((0.0, "Trying out", 0, 0), (1.0, "Reading", 0, 0), (2.0, "Fitting", 0, 0)),
        *((3.0, "Fitting", 100, 1000), (13.0, "Fitting", 200, 1000), (93.0, "Fitting", 1000, 1000)),
        *((94.0, "Sampling", 0, 0), (94.5, "Sealing", 0, 0)),
    )
    # Before the fit says its pace there is a least time only; a second later than the last step, five are rounded up.
    assert said[:4] == ["", "at least about 5 s left", "at least about 5 s left", "at least about 5 s left"]
    assert said[4:] == ["about 85 s left", "about 5 s left", "about 5 s left", "about 5 s left"]


def test_a_machine_that_was_slower_so_far_is_slower_in_what_comes() -> None:
    left = []
    for seconds in (1.0, 11.0, 31.0):
        course = Course(columns=15, rows=10_000)
        watched(course, (0.0, "Trying out", 0, 0), (seconds, "Fitting", 0, 0))
        left.append(watched(course, (seconds + 5, "Sampling", 0, 0))[0])
    assert left == ["about 25 s left", "about 3 min left", "about 10 min left"]


def test_the_owners_report_counts_down_and_says_when_it_takes_longer_than_usual() -> None:
    course = Course(columns=15, rows=10_000)
    said = watched(
        course,
        *((0.0, "Trying out", 0, 0), (1.0, "Reading", 0, 0), (2.0, "Fitting", 0, 0), (3.0, "Sealing", 0, 0)),
        *((4.0, "Reporting to the owner", 0, 0), (14.0, "owner only: Attacking", 0, 0)),
        (60.0, "owner only: Attacking", 0, 0),
    )
    assert said[-3:] == ["about 20 s left", "about 10 s left", "longer than usual; the time left is unknown"]


def test_who_begins_to_watch_in_the_middle_is_told_no_more_than_can_be_known() -> None:
    assert watched(Course(columns=15, rows=10_000), (40.0, "Reporting to the owner", 0, 0)) == [
        "the time left is unknown"
    ]
    assert watched(Course(columns=15, rows=10_000), (40.0, "Fitting", 3, 9)) == ["at least about 25 s left"]


@pytest.mark.parametrize("rows", [10_000, 0])
def test_the_share_goes_by_the_clock_and_never_back(rows: int) -> None:
    course = Course(columns=15, rows=rows)
    shares, places = [], []
    for seconds, phase, step, of in [
        *((0.0, "", 0, 0), (0.5, "Trying out", 0, 0), (1.5, "Reading", 0, 0), (2.0, "Counting columns", 0, 0)),
        *((4.0, "Choosing tables", 1, 100), (8.0, "Choosing tables", 2, 100), (9.0, "Choosing tables", 90, 100)),
        *((10.0, "Fitting", 0, 0), (11.0, "Sampling", 0, 0), (11.5, "Writing", 0, 0), (12.0, "Sealing", 0, 0)),
        (13.0, "Reporting to the owner", 0, 0),
    ]:
        course.tell(seconds, phase, step, of)
        shares.append(course.share)
        places.append(course.place_of(phase))
    assert shares == sorted(shares)
    assert 0 == shares[0] < shares[-1] <= 1
    # A model makes no rows and has no report for its owner: what is called so is part of its fit.
    assert places == ([1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 6] if rows else [1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 4, 3])
