"""Errors, by whose fault they are; each message says what, where, what is allowed and what to do.

The exit code travels with the family, so that a script can tell a typing mistake from an invalid run
from a server that fell over.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INVALID = 3
EXIT_TARGET = 4
EXIT_GENERATOR = 5
EXIT_MEASUREMENT = 6
EXIT_INTERRUPTED = 130


class HarnessError(Exception):
    """Base of all errors that end a command with one clear line."""

    exit_code = EXIT_MEASUREMENT


class ScenarioError(HarnessError):
    """The user's file or option is wrong; nothing was started."""

    exit_code = EXIT_USAGE


class TargetError(HarnessError):
    """The server under test did not start, died, or does not answer."""

    exit_code = EXIT_TARGET


class GeneratorError(HarnessError):
    """The load could not be produced as planned."""

    exit_code = EXIT_GENERATOR


class MeasurementError(HarnessError):
    """The instrument failed: a full disk, a lost sampler, a dead upstream."""

    exit_code = EXIT_MEASUREMENT
