"""`python -m cereval`: the command line."""

import sys

from cereval.cli.main import main

sys.exit(main())
