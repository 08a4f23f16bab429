"""Entry point of the `moca` command, also as `python -m moca`."""

from moca.importing import loading


def main() -> None:
    """Import the command line and run it."""
    with loading():
        from moca.cli import main as command
    command()


if __name__ == "__main__":
    main()
