"""Run the command line: `python -m cereval`."""

import sys

from cereval.cli.main import main

sys.exit(main())
