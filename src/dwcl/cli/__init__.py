"""The command line: thin commands that parse, call and show."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the program's arguments name, and exit with its status.

    0: done. 2: the input or an option cannot be used; one message says why. 130: interrupted.
    141: whoever read the output has gone.
    """
    # Imported here, so that the package can be imported without the libraries of the terminal.
    try:
        from dwcl.cli.app import app
        from dwcl.cli.console import put_up_with_few_letters
    except KeyboardInterrupt:
        sys.exit(130)
    put_up_with_few_letters()
    app(prog_name="dwcl")
