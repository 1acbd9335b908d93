#!/usr/bin/env python3
"""Prints a key for each file that a finished build has compiled: a hash of the file, of everything it includes, and of the
compiler's arguments. Files that were changed since, or whose headers were, are left out.

usage: lint_keys.py BUILD FILE...    prints "KEY FILE" lines
"""

import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

HEADER = ": #deps "


def read_dependencies(build):
    """Object or precompiled header -> what it was compiled from, as ninja remembers it."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    dependencies, current = {}, None
    for line in text.splitlines():
        if HEADER in line:
            name, rest = line.split(HEADER, 1)
            current = dependencies.setdefault(name, []) if rest.endswith("(VALID)") else None
        elif line.startswith("    ") and current is not None:
            current.append(line.strip())
    return dependencies


class Hashes:
    """Of files, each read once; named by where they lie in the project, or on the system."""

    def __init__(self, build, root):
        self.build, self.root = build, root
        self.known = {}

    def of(self, path):
        if path not in self.known:
            file = (self.build / path).resolve()
            name = file.relative_to(self.root) if file.is_relative_to(self.root) else file
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            self.known[path] = (f"{name} {digest}", file.stat().st_mtime_ns)
        return self.known[path]


def key_of(entry, dependencies, hashes):
    """The key of one compile command; None where the build says too little or is too old."""
    arguments = shlex.split(entry["command"])
    output = arguments[arguments.index("-o") + 1]
    names = list(dependencies.get(output, []))
    for header in (a for a in arguments if a.endswith("cmake_pch.hxx")):
        compiled = str(Path(header).resolve().relative_to(hashes.build)) + ".gch"
        if compiled not in dependencies:
            return None
        names += dependencies[compiled]
    if not names:
        return None
    try:
        built = (hashes.build / output).stat().st_mtime_ns
        parts = [hashes.of(name) for name in names]
    except OSError:
        return None
    if any(changed > built for _, changed in parts):
        return None
    arguments = [a.replace(str(hashes.root), ".") for a in arguments]
    return hashlib.sha256("\n".join([*arguments, *sorted({text for text, _ in parts})]).encode()).hexdigest()


def main(build, files):
    build = Path(build).resolve()
    hashes = Hashes(build, Path.cwd().resolve())
    dependencies = read_dependencies(build)
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        entries.setdefault(str((Path(entry["directory"]) / entry["file"]).resolve()), entry)
    for file in files:
        entry = entries.get(str(Path(file).resolve()))
        key = key_of(entry, dependencies, hashes) if entry else None
        if key:
            print(key, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
