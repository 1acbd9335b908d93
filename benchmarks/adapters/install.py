"""Copies an adapter into a checkout of its benchmark: python -m benchmarks.adapters.install NAME CHECKOUT."""

import argparse
import pathlib
import shutil

HERE = pathlib.Path(__file__).parent
#: What is copied, and where to in the checkout.
PLACES = {
    "ann-benchmarks": [("ann_benchmarks/kith", "ann_benchmarks/algorithms/kith")],
    "vibe": [("vibe/kith", "vibe/algorithms/kith")],
    "big-ann-benchmarks": [("big_ann/filter/kith", "neurips23/filter/kith"), ("big_ann/ood/kith", "neurips23/ood/kith")],
    "vectordb-bench": [("vectordb_bench/kith", "vectordb_bench/backend/clients/kith")],
}


def install(name, checkout):
    """Returns the folders, which are replaced."""
    made = []
    for source, place in PLACES[name]:
        target = pathlib.Path(checkout) / place
        if not target.parent.is_dir():
            raise SystemExit(f"'{checkout}' is no checkout of {name}: there is no folder {target.parent}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(HERE / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        made.append(target)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters.install", description=__doc__)
    parser.add_argument("name", choices=PLACES)
    parser.add_argument("checkout")
    options = parser.parse_args()
    for folder in install(options.name, options.checkout):
        print(folder)
