#!/bin/bash
# The Python package, with the interpreter of the system and the library of this build.
set -euo pipefail
export LD_LIBRARY_PATH=$GPUMUX_BUILD/src/client PYTHONPATH=$GPUMUX_SOURCE/python/src
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -W error -m unittest discover -s "$GPUMUX_SOURCE/python/tests" -v
