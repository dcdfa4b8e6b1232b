"""The command `python3 -m gpumux.serve MODULE:FUNCTION`; the function is :func:`gpumux.serve`."""

import sys

import gpumux

if __name__ == "__main__":
    from gpumux.server.command import main

    sys.exit(main())

# The import of this module must not replace the function of the same name by the module.
sys.modules[__name__] = gpumux.serve  # type: ignore[assignment]
