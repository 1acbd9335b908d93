"""Which compiled module the package runs on: its own, or that of kith-cuda13, which has the CUDA backend as well.

Both are whole modules, of which a process loads one. No C++ object and no exception passes from one library to another, so
each has its C++ runtime to itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings

from ._version import __version__


def _choose() -> None:
    """Makes `kith._kith` the module of kith-cuda13 where that is installed: before anything imports it.

    Raises:
        ImportError: its module is there and cannot be loaded
    """
    if importlib.util.find_spec("kith_cuda13") is None:
        return
    try:
        other = importlib.import_module("kith_cuda13").__version__
    except (ImportError, AttributeError) as error:
        warnings.warn(
            f"there is a kith_cuda13 without a version on Python's path ({error}), which is not used; for GPUs install "
            "kith-cuda13, else remove the folder",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    if other != __version__:
        warnings.warn(
            f"kith-cuda13 {other} does not belong to kith {__version__} and is not used; for GPUs install the one of "
            f"version {__version__} from where kith came from",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    name = f"{__package__}._kith"
    found = importlib.util.find_spec("kith_cuda13._kith")
    try:
        if found is None or found.origin is None:
            raise ImportError("there is no module _kith in it for this Python")
        spec = importlib.util.spec_from_file_location(name, found.origin)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        vars(sys.modules[str(__package__)])["_kith"] = module
    except ImportError as error:
        sys.modules.pop(name, None)
        raise ImportError(
            f"kith-cuda13 {other} cannot be loaded ({error}); install it again, or uninstall it to use CPUs alone"
        ) from error


_choose()
