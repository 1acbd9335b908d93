"""Copies an adapter into a checkout of its benchmark: python -m benchmarks.adapters.install NAME CHECKOUT."""

import argparse
import pathlib
import shutil

HERE = pathlib.Path(__file__).parent
#: What is copied, and where to in the checkout.
PLACES = {
    "ann-benchmarks": [("ann_benchmarks/kith", "ann_benchmarks/algorithms/kith")],
    "vibe": [("vibe/kith", "vibe/algorithms/kith")],
    "big-ann-benchmarks": [
        ("big_ann/filter/kith", "neurips23/filter/kith"),
        ("big_ann/ood/kith", "neurips23/ood/kith"),
        ("big_ann/streaming/kith", "neurips23/streaming/kith"),
    ],
    "vectordb-bench": [("vectordb_bench/kith", "vectordb_bench/backend/clients/kith")],
}


def _insert(path, before, text):
    """Puts lines before the first place where ``before`` stands, unless they are there."""
    source = path.read_text()
    if text in source:
        return
    if before not in source:
        raise SystemExit(f"'{path}' is not as it was when this was written: there is no {before!r}")
    path.write_text(source.replace(before, text + before, 1))


def _register_in_vectordb_bench(checkout):
    """Its databases are an Enum, which takes no members from outside."""
    clients = pathlib.Path(checkout) / "vectordb_bench/backend/clients/__init__.py"
    _insert(clients, '    Test = "test"\n', '    Kith = "Kith"\n')
    for imported, name, first in (
        ("kith", "Kith", "        if self == DB.Milvus:\n            from .milvus.milvus import Milvus\n"),
        ("config", "KithConfig", "        if self == DB.Milvus:\n            from .milvus.config import MilvusConfig\n"),
        ("config", "KithIndexConfig", "        if self == DB.Milvus:\n            from .milvus.config import _milvus_case_config\n"),
    ):  # fmt: skip
        _insert(
            clients,
            first,
            f"        if self == DB.Kith:\n            from .kith.{imported} import {name}\n\n            return {name}\n\n",
        )
    program = pathlib.Path(checkout) / "vectordb_bench/cli/vectordbbench.py"
    _insert(program, "from ..backend.clients.test.cli import Test\n", "from ..backend.clients.kith.cli import Kith\n")
    _insert(program, "cli.add_command(Test)\n", "cli.add_command(Kith)\n")


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
    if name == "vectordb-bench":
        _register_in_vectordb_bench(checkout)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters.install", description=__doc__)
    parser.add_argument("name", choices=PLACES)
    parser.add_argument("checkout")
    options = parser.parse_args()
    for folder in install(options.name, options.checkout):
        print(folder)
