"""`python -m outsize ...` is `outsize ...`."""

from outsize.cli import main

main()
