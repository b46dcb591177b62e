"""`python -m tests.soak --engine hbase --server-kills 100 --writer-kills 200`: exit code 1 if something is lost."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.soak import WORKERS, WRITERS, Wanted, run


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--engine", choices=("hbase", "bigtable"), default="bigtable")
    parser.add_argument("--server-kills", type=int, default=100)
    parser.add_argument("--writer-kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, help="a folder for the ledger and what programs said")
    options = parser.parse_args(arguments)
    if options.server_kills < 0 or options.writer_kills < WRITERS + WORKERS:
        parser.error(f"--server-kills is 0 or more, --writer-kills {WRITERS + WORKERS} or more: so many die at the end")
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    wanted = Wanted(options.engine, options.server_kills, options.writer_kills, seed)
    with tempfile.TemporaryDirectory(prefix="oneread-soak-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        result = run(wanted, folder)
    for kind, number in result["faults"].items():
        print(f"{number:6} {kind}")
    for kind, number in result["errors"].items():
        print(f"{number:6} seen: {kind}")
    for sentence in result["sentences"]:
        print(f"FAULT {sentence}")
    print(f"acknowledged {result['acknowledged']}, lost {result['lost']}, wrong {result['wrong']}")
    print(json.dumps(result))
    return 1 if result["lost"] or result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
