"""Run the command line as ``python -m dwcl``."""

from dwcl.cli import main

if __name__ == "__main__":
    main()
