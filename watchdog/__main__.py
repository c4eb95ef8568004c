"""`python -m watchdog` from a checkout; installed, the command is `inference-watchdog`."""

from watchdog.cli import main

if __name__ == "__main__":
    main()
