"""python -m benchmarks.trees.fit: the constants of src/any_index/choose.cpp that explain the crossover best.

The models are those of choose.cpp; keep them alike. Prints the constants and what wrong choices cost.
"""

import argparse
import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BRUTE_FORCE = {"scan_query": 1100, "scan_a_neighbor": 90, "scan_a_pair": 0.3, "scan_code_a_row": 170,
               "scan_a_pair_few": 38}  # fmt: skip
TREE = {"tree_build_a_point": 11, "tree_query": 240, "tree_query_a_neighbor": 21, "tree_a_list_place": 15,
        "growth_a_dimension": 1.5, "tree_a_value_at_most": 0.2}  # fmt: skip


def brute_force_cost(constants, rows, dim, queries, k):
    query, neighbor, pair, code, few = constants
    a_row = np.where(queries <= 4, queries * few, code + queries * pair)
    return queries * (query + neighbor * k * np.log2(rows / k + 2)) + rows * a_row


def tree_cost(constants, rows, dim, queries, k):
    build, query, neighbor, place, growth, most = constants
    visits = np.minimum((query + neighbor * k) * growth ** np.maximum(0, dim - 2), most * rows * dim)
    return rows * np.log2(rows + 1) * build + queries * (visits + place * k * np.log2(k + 1))


def fit(cost, start, inputs, nanoseconds):
    """Constants (as in `start`) with the least error of the logarithm; runs without a time do not count."""
    from scipy.optimize import least_squares

    known = ~np.isnan(nanoseconds)
    given = [column[known] for column in inputs]

    def error(logarithms):
        return np.log(cost(np.exp(logarithms), *given)) - np.log(nanoseconds[known])

    return np.exp(least_squares(error, np.log(list(start.values())), loss="soft_l1").x)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees.fit", description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/trees-cpu.json")
    points = json.loads(parser.parse_args().results.read_text())["crossover"]["points"]
    inputs = [np.array([p[name] for p in points], float) for name in ("rows", "dim", "queries", "k")]
    taken = {}
    cost = {}
    for name, model, start in (
        ("brute_force", brute_force_cost, BRUTE_FORCE), ("kd_tree", tree_cost, TREE),
    ):  # fmt: skip
        taken[name] = np.array([np.nan if p[name] is None else p[name] * 1e9 for p in points])
        found = fit(model, start, inputs, taken[name])
        cost[name] = model(found, *inputs)
        for constant, value in zip(start, found, strict=True):
            print(f"{constant:24} {value:10.3g}")
    tree = cost["kd_tree"] < cost["brute_force"]
    chosen = np.where(tree, taken["kd_tree"], taken["brute_force"])
    other = np.where(tree, taken["brute_force"], taken["kd_tree"])
    loss = chosen / np.fmin(chosen, other)
    print(f"{int((loss > 1).sum())} of {int((~np.isnan(loss)).sum())} choices are not the quicker one; "
          f"the worst takes {np.nanmax(loss):.2f} times as long")  # fmt: skip


if __name__ == "__main__":
    main()
