"""The two ways a report can fail; the numbers are the exit statuses of the kith program."""

from __future__ import annotations


class ReportError(Exception):
    """Says the file, the field and the remedy."""

    kind = "internal"
    exit_code = 70


class UsageError(ReportError):
    """Arguments outside what is accepted."""

    kind = "usage"
    exit_code = 1


class InputError(ReportError):
    """A file that is missing, damaged or foreign, or that cannot be written."""

    kind = "io"
    exit_code = 2
