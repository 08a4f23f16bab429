"""`python -m moca` is the `moca` command."""

from moca.cli import main

main()
