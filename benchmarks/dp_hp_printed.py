"""What the DP-HP paper prints in its Tables 1 and 2 (Vinaroz 2022): figures to stand beside ours."""

from __future__ import annotations

__all__ = ["PRINTED", "PRINTED_MARGINALS", "PRINTED_SCORES", "REAL"]

REAL = "real rows"

_BY = ("privbayes", "dp-merf", "dp-hp")
_MARGINALS = {
    ("adult", 3): ((0.446, 0.577), (0.405, 0.480), (0.332, 0.377)),
    ("adult", 4): ((0.547, 0.673), (0.508, 0.590), (0.418, 0.467)),
    ("census", 2): ((0.180, 0.291), (0.190, 0.222), (0.141, 0.155)),
    ("census", 3): ((0.323, 0.429), (0.302, 0.337), (0.211, 0.232)),
}
"""Table 1, by table and alpha: each method at epsilon 0.3 and 0.1."""

PRINTED_MARGINALS = {
    (table, alpha, name, epsilon): value
    for (table, alpha), methods in _MARGINALS.items()
    for name, values in zip(_BY, methods, strict=True)
    for epsilon, value in zip((0.3, 0.1), values, strict=True)
}
"""Table, alpha, method and epsilon: the printed mean total variation of Table 1, one run."""

_COLUMNS = (REAL, "dp-cgan", "dp-gan", "dp-merf", "dp-hp")

_AREAS = {
    "adult": ((0.786, 0.683), (0.509, 0.444), (0.511, 0.445), (0.642, 0.524), (0.688, 0.632)),
    "census": ((0.776, 0.433), (0.655, 0.216), (0.529, 0.166), (0.685, 0.236), (0.699, 0.328)),
    "cervical": ((0.959, 0.858), (0.519, 0.200), (0.485, 0.183), (0.531, 0.176), (0.616, 0.312)),
    "credit": ((0.924, 0.864), (0.664, 0.356), (0.435, 0.150), (0.751, 0.622), (0.786, 0.744)),
    "isolet": ((0.895, 0.741), (0.511, 0.198), (0.540, 0.205), (0.557, 0.228), (0.572, 0.498)),
}
"""Areas under the ROC and the precision-recall curve, by what was trained on; two classes."""

_WEIGHTED_F1 = {
    "covtype": (0.820, 0.285, 0.492, 0.467, 0.537),
    "intrusion": (0.971, 0.302, 0.251, 0.892, 0.890),
}
"""The same for more than two classes."""

PRINTED_SCORES = {
    (name, trained): values for name, areas in _AREAS.items() for trained, values in zip(_COLUMNS, areas, strict=True)
} | {
    (name, trained): (score,)
    for name, scores in _WEIGHTED_F1.items()
    for trained, score in zip(_COLUMNS, scores, strict=True)
}
"""Table and what was trained on: ROC and PR areas, or a weighted F1; epsilon 1, delta 1e-5, means of five runs."""

PRINTED = {
    key: f"ROC {values[0]:.3f}, PR {values[1]:.3f}" if len(values) == 2 else f"F1 {values[0]:.3f}"
    for key, values in PRINTED_SCORES.items()
}
"""The same in words."""
