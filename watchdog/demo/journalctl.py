"""The rig's `journalctl`: answers the reader script's own calls from a file of JSON lines, and nothing else.

Run as a program of the rig's pretended machine, never imported. It understands `--version`, `--list-boots`, `-o json`
with `_BOOT_ID=…`, an inclusive `--cursor=…`, and `-f`.
"""

import json
import sys
import time
from pathlib import Path


def entries(journal: Path, offset: int) -> tuple[list[str], int]:
    """Whole lines of `journal` from byte `offset` on, and the offset after them."""
    with journal.open("rb") as file:
        file.seek(offset)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode().splitlines(), offset + len(whole)


def main() -> int:
    """Answer one call; returns the exit status."""
    journal, arguments = Path(sys.argv[1]), sys.argv[2:]
    if "--version" in arguments:
        print("systemd 257 (rig)")
        return 0
    lines, offset = entries(journal, 0)
    if "--list-boots" in arguments:
        for number, boot in enumerate(dict.fromkeys(json.loads(line)["_BOOT_ID"] for line in lines)):
            print(f"{number} {boot} - -")
        return 0
    boot = next(word.partition("=")[2] for word in arguments if word.startswith("_BOOT_ID="))
    cursor = next((word.partition("=")[2] for word in arguments if word.startswith("--cursor=")), None)
    seen_cursor = cursor is None
    while True:
        for line in lines:
            entry = json.loads(line)
            seen_cursor = seen_cursor or entry["__CURSOR"] == cursor
            if seen_cursor and entry["_BOOT_ID"] == boot:
                print(line, flush=True)
        if "-f" not in arguments:
            return 0
        time.sleep(0.1)
        lines, offset = entries(journal, offset)


if __name__ == "__main__":
    sys.exit(main())
