"""The section on the automatic choice of codes, from results of benchmarks/brute_force/auto_choice.py."""

from .text import figure, table

ENOUGH = 1.1

INTRODUCTION = """What `filter="auto"` takes, beside the best of all fixed choices (`none`, `int8`, `fp16`, `fp32`, each of the last three
with leading directions where they pay and without), searched in turns{by}. Medians, ms; *m* is the number of
leading directions compared, 0 where all values are. {summary} All answers are the same bits.
"""


def chosen(line):
    return line["took"] + (f", m = {line['directions']}" if line["directions"] else "")


def summary_of(lines):
    within = sum(line["ratio"] <= ENOUGH for line in lines)
    most = max(line["ratio"] for line in lines)
    return (
        f"On {lines[0]['set']} {within} of {len(lines)} shapes are within 10 %, the worst takes {most:.2f} of the best."
    )


def render_auto_choice(result):
    sets = dict.fromkeys(line["set"] for line in result["results"])
    by_set = {which: [line for line in result["results"] if line["set"] == which] for which in sets}
    if any(line["wrong"] for line in result["results"]):
        raise ValueError("auto_choice: answers that were not the same bits")
    gpu = result.get("device", "cpu") != "cpu"
    by = ", queries and answers in the host's memory" if gpu else f" by {result['threads']} threads"
    calibrated = ""
    if result.get("calibrations"):
        calibrated = (
            " Choices go by a calibration of this machine for each instruction set (`kith devices --calibrate`)."
        )
    parts = [
        f"### The automatic choice of codes, on {'a GPU' if gpu else 'the CPU'}{', calibrated' if calibrated else ''}\n",
        INTRODUCTION.format(by=by, summary=" ".join(map(summary_of, by_set.values())) + calibrated),
        f"{result['machine']}; Kith at {result['commit']}, {result['date']}: `{result['command']}`.\n",
    ]
    for which, lines in by_set.items():
        rows = [[which, "auto takes", "ms", "the best", "ms", "ratio"]]
        for line in lines:
            auto, best = line["auto"], line["best"]
            ratio = f"{line['ratio']:.2f}" if line["ratio"] <= ENOUGH else f"**{line['ratio']:.2f}**"
            rows.append([
                line["shape"], chosen(auto), figure(auto["median_ms"]), chosen(best), figure(best["median_ms"]), ratio,
            ])  # fmt: skip
        parts.append(table(rows) + "\n")
    return "\n".join(parts)
