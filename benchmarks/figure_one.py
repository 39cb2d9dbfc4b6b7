"""Figure 1 and Proposition B.1 of the DP-HP paper (Vinaroz 2022), drawn again and beside the reference values.

    python benchmarks/figure_one.py [--out FOLDER]

Prints both tables and writes ``figure_one.html`` (plotly) and ``figure_one.json`` into the folder. The points are the
ones of the reference file: 100 from N(0, 1) and 100 from N(1, 1), length scale by the median heuristic. Nothing here
is private; it is about kernels only.

The caption says that 500 random Fourier features are about as good as Hermite features of order 2; so it comes out. The
proposition's bound holds at every order; its squared error has the closed form 9^-(C+1) / 2, which is printed beside.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import torch
from gaussian_kernels import fourier_features, mehler_kernel
from plotly.subplots import make_subplots

from synth.generators.hermite.dp_hp import hermite_features, rho_of_length_scale

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "references" / "dp-hp.json"
DRAWS = 100
QUADRATURE_POINTS = 120


def hermite_errors(x: torch.Tensor, y: torch.Tensor, rho: float, orders: list[int]) -> dict[int, float]:
    exact = mehler_kernel(x[:, None], y[None, :], rho=rho)
    features = [hermite_features(points, order=max(orders), rho=rho) for points in (x, y)]
    # Features do not depend on the order at which they are cut, so one evaluation serves all.
    return {c: float((features[0][:, : c + 1] @ features[1][:, : c + 1].T - exact).abs().mean()) for c in orders}


def fourier_errors(x: torch.Tensor, y: torch.Tensor, length_scale: float, n_features: int) -> tuple[float, float]:
    exact = torch.exp(-((x[:, None] - y[None, :]) ** 2) / (2 * length_scale**2))
    errors = []
    for draw in range(DRAWS):
        # The reference drew from numpy's legacy generator; the same seeds give the same frequencies.
        frequencies = torch.from_numpy(np.random.RandomState(draw).randn(n_features // 2, 1)) / length_scale
        left, right = (fourier_features(points[:, None], frequencies) for points in (x, y))
        errors.append(float((left @ right.T - exact).abs().mean()))
    return float(np.mean(errors)), float(np.std(errors))


def proposition(rho: float, orders: list[int]) -> list[dict[str, float]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_POINTS)
    points, weights = torch.from_numpy(nodes), torch.from_numpy(weights / math.sqrt(2 * math.pi))
    exact = mehler_kernel(points[:, None], points[None, :], rho=rho)
    rows = []
    for c in orders:
        features = hermite_features(points, order=c, rho=rho)
        error = features @ features.T - exact
        rows.append(
            {
                "order": c,
                "mean absolute error": float(weights @ error.abs() @ weights),
                "bound": 3.0**-c / (3 * math.sqrt(2)),
                "mean squared error": float(weights @ error.square() @ weights),
                "closed form": 0.5 * 9.0 ** -(c + 1),
            }
        )
    return rows


def figure(results: dict) -> go.Figure:
    plot = make_subplots(
        rows=1,
        cols=3,
        subplot_titles=("Hermite features", "Random Fourier features, 100 draws", "Proposition B.1, rho = 1/3"),
        horizontal_spacing=0.08,
    )
    hermite, fourier, rows = results["hermite"], results["fourier"], results["proposition"]
    plot.add_scatter(x=list(hermite), y=list(hermite.values()), mode="lines+markers", name="Hermite", row=1, col=1)
    means = np.array([value["mean"] for value in fourier.values()])
    spreads = [value["spread"] for value in fourier.values()]
    plot.add_scatter(
        x=list(fourier), y=means, error_y={"array": spreads}, mode="lines+markers", name="Fourier", row=1, col=2
    )
    plot.add_hline(y=hermite[2], line_dash="dot", annotation_text="Hermite, order 2", row=1, col=2)
    orders = [row["order"] for row in rows]
    for name, dash in (("mean absolute error", "solid"), ("bound", "dash")):
        plot.add_scatter(x=orders, y=[row[name] for row in rows], name=name, line={"dash": dash}, row=1, col=3)
    plot.update_yaxes(type="log", title="mean absolute error of the kernel")
    plot.update_xaxes(title="order", row=1, col=1)
    plot.update_xaxes(title="features", type="log", row=1, col=2)
    plot.update_xaxes(title="order C", row=1, col=3)
    plot.update_layout(title="Vinaroz 2022, figure 1 and Proposition B.1", width=1400, height=480, colorway=COLOURS)
    return plot


COLOURS = ["#0072B2", "#E69F00", "#009E73", "#444444"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/figure_one"))
    folder = parser.parse_args().out
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    wanted = reference["fig1"]
    x, y = (torch.tensor(wanted[key], dtype=torch.float64) for key in ("x", "x_prime"))
    length_scale = math.sqrt(wanted["sigma2"])
    rho = rho_of_length_scale(length_scale)
    results: dict = {"length_scale": length_scale, "rho": rho}

    print(f"Figure 1: mean absolute error over 100 x 100 pairs, length scale {length_scale:.4f}")
    print(f"{'Hermite order':>16} {'here':>12} {'reference':>12} {'difference':>11}")
    results["hermite"] = hermite_errors(x, y, rho, [int(c) for c in wanted["hp_order_error"]])
    for order, error in results["hermite"].items():
        expected = wanted["hp_order_error"][str(order)]
        print(f"{order:>16} {error:>12.4e} {expected:>12.4e} {abs(error - expected):>11.1e}")
    print(f"{'Fourier features':>16} {'here':>12} {'reference':>12} {'difference':>11}   spread over {DRAWS} draws")
    results["fourier"] = {}
    for n_features, (expected, _) in wanted["rff_features_mean_std_over_100_draws_seed_RandomState_0_99"].items():
        mean, spread = fourier_errors(x, y, length_scale, int(n_features))
        results["fourier"][int(n_features)] = {"mean": mean, "spread": spread}
        print(f"{n_features:>16} {mean:>12.4e} {expected:>12.4e} {abs(mean - expected):>11.1e}   {spread:.4f}")

    print("\nProposition B.1: standard normal x and y, rho = 1/3")
    heads = ("E|error|", "bound", "ratio", "E error^2", "9^-(C+1)/2", "reference")
    print(f"{'order C':>8}" + "".join(f"{head:>12}" for head in heads))
    expected_rows = reference["prop_b1"]["rows"]
    results["proposition"] = proposition(reference["prop_b1"]["rho"], [row["C"] for row in expected_rows])
    for row, expected in zip(results["proposition"], expected_rows, strict=True):
        print(
            f"{row['order']:>8} {row['mean absolute error']:>11.4e} {row['bound']:>11.4e} "
            f"{row['mean absolute error'] / row['bound']:>11.3f} {row['mean squared error']:>11.4e} "
            f"{row['closed form']:>11.4e} {expected['E_sq']:>11.4e}"
        )

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figure_one.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    figure(results).write_html(folder / "figure_one.html", include_plotlyjs="cdn")
    print(f"\nWrote {folder / 'figure_one.html'} and {folder / 'figure_one.json'}")


if __name__ == "__main__":
    main()
