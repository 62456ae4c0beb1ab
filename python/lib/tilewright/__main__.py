"""`python -m tilewright`: the command line."""

import signal
import sys

from ._tilewright import main as _main


def main() -> int:
    """Runs the command line with the arguments of this process and returns its exit status."""
    # The work is done outside of the interpreter, where Python's own handler would wait for it to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _main(["tilewright", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
