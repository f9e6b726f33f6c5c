"""`python -m gpuyield` is the command line."""

from gpuyield.cli import main

main()
