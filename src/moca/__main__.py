"""`python -m moca`, the same as the `moca` command."""

from moca.cli import main

main()
