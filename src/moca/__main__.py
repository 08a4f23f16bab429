"""The `moca` command, also as `python -m moca`."""

from moca.importing import loading


def main() -> None:
    """Load the command line, and hand over."""
    with loading():
        from moca.cli import main as command
    command()


if __name__ == "__main__":
    main()
