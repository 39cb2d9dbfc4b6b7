"""What the DP-HP paper prints in its Table 2 (Vinaroz 2022): figures to stand beside ours."""

from __future__ import annotations

__all__ = ["PRINTED", "REAL"]

REAL = "real rows"

_AREAS = {
    "adult": ((0.786, 0.683), (0.642, 0.524), (0.688, 0.632)),
    "census": ((0.776, 0.433), (0.685, 0.236), (0.699, 0.328)),
    "cervical": ((0.959, 0.858), (0.531, 0.176), (0.616, 0.312)),
    "credit": ((0.924, 0.864), (0.751, 0.622), (0.786, 0.744)),
    "isolet": ((0.895, 0.741), (0.557, 0.228), (0.572, 0.498)),
}
"""Areas under the ROC and the precision-recall curve: real rows, DP-MERF, DP-HP; two classes."""

_WEIGHTED_F1 = {"covtype": (0.820, 0.467, 0.537), "intrusion": (0.971, 0.892, 0.890)}
"""The same for more than two classes."""

_COLUMNS = (REAL, "dp-merf", "dp-hp")

PRINTED = {
    (name, trained): f"ROC {roc:.3f}, PR {pr:.3f}"
    for name, areas in _AREAS.items()
    for trained, (roc, pr) in zip(_COLUMNS, areas, strict=True)
} | {
    (name, trained): f"F1 {score:.3f}"
    for name, scores in _WEIGHTED_F1.items()
    for trained, score in zip(_COLUMNS, scores, strict=True)
}
"""Table and what was trained on: the printed figures, at epsilon 1 and delta 1e-5, means of five runs."""
