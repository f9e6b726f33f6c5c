"""gpuyield VERB: one file per verb."""


def main() -> None:
    """Run the command line."""
