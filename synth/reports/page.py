"""``report.html``: the publishable report as one page that needs no network and prints well."""

from __future__ import annotations

from collections.abc import Sequence

from synth.reports.drawing import draw, letters, number_text
from synth.reports.evidence import Publishable, publishable

__all__ = ["report_page"]

_STYLE = """
:root{color-scheme:light dark;--ink:#1F2933;--paper:#FFF;--soft:#F4F6F7;--accent:#0B6E75}
@media(prefers-color-scheme:dark){:root{--ink:#E6EAED;--paper:#12181C;--soft:#1B2328;--accent:#4FB3BA}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;border-bottom:2px solid var(--accent);margin-top:2.5rem}
section{break-inside:avoid;margin:1rem 0;padding:.8rem 1rem;background:var(--soft);border-radius:6px}
.g{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:1rem}
.g section{margin:0}.g p{margin:.3rem 0}
.v{font-size:1.4rem;font-weight:600}.b{font-size:.85rem;color:var(--accent)}h3{font-size:1rem;margin:0}
table{border-collapse:collapse;font-size:.85rem}caption{text-align:left;font-weight:600;padding:.3rem 0}
td,th{padding:.15rem .6rem;border-bottom:1px solid #8884;text-align:left}
.n{text-align:right;font-variant-numeric:tabular-nums}
svg{max-width:100%;height:auto}figure{margin:.6rem 0}figcaption{font-size:.85rem}details{overflow-x:auto}
@media print{:root{color-scheme:light;--ink:#1F2933;--paper:#FFF;--accent:#0B6E75}body{margin:0;max-width:none}
section{background:none;border:1px solid #ccc}details{display:none}}
"""


def report_page(evidence: Sequence[Publishable], *, heading: str, promise: Sequence[str]) -> str:
    """Write the page.

    Parameters
    ----------
    evidence : sequence of Publishable
        The numbers; those whose ids begin with the same word stand under one heading.
    heading : str
        Title of the page.
    promise : sequence of str
        What the certificate promises, line by line, printed first.

    Raises
    ------
    TypeError
        If evidence of another kind than safe or charged is among it.
    """
    sections: dict[str, list[Publishable]] = {}
    for entry in publishable(evidence):
        sections.setdefault(_section(entry), []).append(entry)
    body = "".join(f"<h2>{letters(title)}</h2>{_cards(entries)}" for title, entries in sections.items())
    lines = "".join(f"<li>{letters(line)}</li>" for line in promise)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{letters(heading)}</title><style>{_STYLE}</style></head><body><main><h1>{letters(heading)}</h1>"
        f"<section><h3>The promise</h3><ul>{lines}</ul></section>"
        "<p>Every number here was computed from the synthetic rows, from noisy answers that are already paid for, and "
        "from what was declared public. None was read from the private rows.</p>"
        f"{body}</main></body></html>\n"
    )


_HEADINGS = {
    "overview": "At a glance",
    "columns": "Columns",
    "marginals": "Marginals",
    "fidelity": "Numbers, dates and missing cells",
    "accuracy": "Accuracy you can expect",
    "downstream": "Prediction",
    "predictions": "Prediction of held-out rows",
    "membership": "Attacks",
    "groups": "Groups",
}


def _cards(entries: Sequence[Publishable]) -> str:
    """Lay out numbers three in a line, and below them whatever has pictures or tables."""
    # How many sets were compared stands in the sentences beside the means.
    shown = [entry for entry in entries if entry.id.rpartition(".")[2] not in {"evaluated", "of"}]
    small = "".join(_card(entry) for entry in shown if not entry.figures)
    large = "".join(_card(entry) for entry in shown if entry.figures)
    return f'<div class="g">{small}</div>{large}'


def _section(entry: Publishable) -> str:
    first = entry.id.partition(".")[0]
    return _HEADINGS.get(first, first.replace("_", " ").capitalize())


def _card(entry: Publishable) -> str:
    value = number_text(entry.value)
    error = "" if entry.error is None else f" ± {number_text(entry.error)}"
    figures = "".join(draw(figure) for figure in entry.figures)
    value = "not measured" if entry.value is None else value
    number = f'<p class="v">{letters(value)}{error} <small>{letters(entry.unit)}</small></p>'
    shown = "" if entry.value is None and entry.figures else number
    return (
        f'<section><h3>{letters(entry.title)} <span class="b">{letters(entry.badge)}</span></h3>'
        f"{shown}<p>{letters(entry.sentence)}</p>{figures}</section>"
    )
