"""The program under test: where it is, what a run of it leaves. A name of its own, because every folder of tests
has a conftest and Python would find only one of them."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KITH = Path(os.environ.get("KITH", ROOT / "build" / "bin" / "kith")).resolve()


class Outcome:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()

    @property
    def json(self):
        return json.loads(self.out)


def files_of(folder):
    """Names of all files in the folder, temporary ones too."""
    return sorted(path.name for path in folder.iterdir())
