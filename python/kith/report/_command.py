"""The command line of the report: options, messages, exit statuses."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import make_report
from ._errors import ReportError, UsageError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; try 'python -m kith.report --help'")


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m kith.report",
        description="Makes one self-contained HTML page from results of kith ladder and kith bench.",
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="RESULT", help="JSON of kith ladder, kith bench, gpu_search or benchmarks.vamana"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the page, written whole or not at all")
    parser.add_argument("--images", metavar="FOLDER", help="also write every chart there, as SVG and PNG")
    parser.add_argument("--title", metavar="TEXT", help="the page's title")
    parser.add_argument("--json", action="store_true", help="say what was made, or what failed, as JSON on stdout")
    return parser


def _stopped(number: int, _: Any) -> NoReturn:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, 1 usage, 2 input or output, 129, 130 and 143 interrupted; of the kith program's."""
    as_json = "--json" in arguments
    signal.signal(signal.SIGTERM, _stopped)  # so that temporary files are removed
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _stopped)
    try:
        options = _parser().parse_args(arguments)
        inputs = ["/dev/stdin" if path == "-" else path for path in options.inputs]
        to_stdout = options.output in ("-", "/dev/stdout")
        if to_stdout and as_json:
            raise UsageError("--json prints on standard output, between the page; leave it out, or name a file")
        report = make_report(
            inputs, "/dev/stdout" if to_stdout else options.output, images=options.images, title=options.title
        )
    except ReportError as error:
        if as_json:
            print(json.dumps({"error": {"kind": error.kind, "message": str(error), "exit_code": error.exit_code}}))
        else:
            print(f"kith report: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if as_json:
        print(json.dumps({
            "output": report.output, "charts": report.charts, "images": report.images,
            "left_out": [{"section": name, "reason": why} for name, why in report.left_out],
        }))  # fmt: skip
    else:
        said = sys.stderr if to_stdout else sys.stdout
        print(f"wrote {report.output}" + (f" and {len(report.images)} pictures" if report.images else ""), file=said)
        for name, why in report.left_out:
            print(f"left out: {name}: {why}", file=said)
    return 0
