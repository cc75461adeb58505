"""`python -m cereval.datasets.bank > bank.jsonl`: writes the question bank."""

from __future__ import annotations

import argparse

from cereval.datasets.bank.generate import as_jsonl


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m cereval.datasets.bank", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="another seed, another bank")
    for line in as_jsonl(parser.parse_args().seed):
        print(line)


if __name__ == "__main__":
    main()
