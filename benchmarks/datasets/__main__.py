"""python -m benchmarks.datasets NAME [--out DIR]: makes a dataset and prints the paths of its files."""

import argparse
import json
import sys

from .registry import DATASETS, ensure


def main():
    listing = "\n".join(f"  {name:20} {dataset.summary}" for name, dataset in DATASETS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.datasets",
        description="Makes benchmark datasets and keeps them in a cache outside the repository.",
        epilog=f"datasets:\n{listing}\n\nThe cache is $KITH_CACHE, or ~/.cache/kith/datasets.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="+", metavar="NAME", help="a dataset, or 'all'")
    parser.add_argument("--out", metavar="DIR", help="folder to use in place of the cache")
    parser.add_argument("--json", action="store_true", help="print {name: {role: path}} instead of lines")
    arguments = parser.parse_args()
    names = list(DATASETS) if arguments.name == ["all"] else arguments.name
    made = {}
    try:
        for name in names:
            made[name] = {role: str(path) for role, path in ensure(name, arguments.out).items()}
    except (KeyError, OSError, ValueError, ImportError) as error:
        sys.exit(f"error: {error.args[0] if isinstance(error, KeyError) else error}")
    if arguments.json:
        print(json.dumps(made, indent=1))
    else:
        for name, files in made.items():
            for role, path in files.items():
                print(f"{name} {role} {path}")


if __name__ == "__main__":
    main()
