"""Other libraries under the same measurement: one small file a peer, one interface (base.py)."""

from importlib import import_module

# name: (module, Python packages). The modules are imported only when asked for.
PEERS = {
    "faiss": ("faiss_flat", "faiss-cpu"),
    "sklearn": ("sklearn_brute", "scikit-learn"),
    "numpy": ("numpy_gemm", "numpy"),
    "scipy": ("scipy_cdist", "scipy"),
}


def open_peer(name):
    """An object of the peer's class.

    @raises ValueError for an unknown name, ModuleNotFoundError with the remedy where it is not installed
    """
    if name not in PEERS:
        raise ValueError(f"there is no peer '{name}'; there are: {', '.join(PEERS)}")
    module, package = PEERS[name]
    try:
        return import_module(f".{module}", __name__).Peer()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is missing; run: pip install {package}") from error
