"""python -m kith.report, or a Python given this folder: `kith report` does that, so that no compiled module is needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _package() -> ModuleType:
    """The package this file belongs to, under a name of its own where Python was only given the folder."""
    name = "kith_report"
    folder = Path(__file__).resolve().parent
    # Python put the folder itself in front of the path: its files are no modules of anybody else.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if sys.version_info < (3, 10):  # noqa: UP036 - any Python may be asked to draw a report
    sys.exit("kith report: error: Python 3.10 or newer is needed, this is " + sys.version.split()[0])
if __package__:
    from ._command import main
else:
    main = importlib.import_module(_package().__name__ + "._command").main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
