"""A report that nobody but a test knows: how many synthetic rows have the first code in the first column."""

from __future__ import annotations

from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.panels import Cards, Heading
from synth.reports.report import Report, ReportOption, Screen, Section, Tab

TAB = Tab(65, "○ Toys")


def _public(answers):
    return (SafeEvidence(id="toys.first", title="Toys in public", value=int((answers.codes[0] == 0).sum())),)


def _owner(rows, options, progress):
    progress.phase("Playing")
    times = 2 if options.get("toys_twice") else 1
    count = times * int((rows.train.codes[0] == 0).sum())
    return (OwnerOnlyEvidence(id="toys.exact", title="Toys for the owner", value=count),)


REPORT = Report(
    id="toy_report",
    title="Toys",
    sections={"toys": Section("All the toys")},
    public=_public,
    owner=_owner,
    options=(ReportOption("toys_twice", "count every toy twice", default=False),),
    screens=(
        Screen(TAB, lambda shown: [Heading("Toys"), Cards(shown.public_of("toys"), key="toys")]),
        Screen(TAB, lambda shown: [Cards(shown.exact_of("toys"), key="owner-toys")], exact=True),
    ),
)
