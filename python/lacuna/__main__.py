"""The command: `python -m lacuna`, and the script `lacuna` of the wheel."""

import os
import sys

from ._call import command


def main() -> None:
    os.execv(command, ["lacuna", *sys.argv[1:]])


if __name__ == "__main__":
    main()
