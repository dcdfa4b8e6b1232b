#!/bin/bash
# pip installs the package from its folder, and builds a wheel that any Python 3.9 or later can use.
# Without a network: the machine must have setuptools and wheel.
set -euo pipefail
export PIP_ROOT_USER_ACTION=ignore
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -c 'import setuptools, wheel, pip' 2> /dev/null \
    || { echo "skipped: pip, setuptools or wheel is missing"; exit 77; }
cp -r "$GPUMUX_SOURCE/python" "$work/python" # pip writes into the folder
pip() { /usr/bin/python3 -m pip --quiet --disable-pip-version-check --no-cache-dir "$@"; }

pip wheel --no-build-isolation --no-deps --wheel-dir "$work/wheels" "$work/python"
[ "$(ls "$work/wheels")" = gpumux-0.1.0-py3-none-any.whl ] || { ls "$work/wheels"; exit 1; }
pip install --no-deps --no-index --target "$work/installed" "$work/wheels"/*.whl
[ -f "$work/installed/gpumux/py.typed" ] || { echo "the types are not installed"; exit 1; }
pip install --no-build-isolation --no-deps --target "$work/again" "$work/python"
for place in installed again; do
    # Without libgpumux every call does nothing.
    said=$(cd "$work" && env -u LD_LIBRARY_PATH PYTHONPATH="$work/$place" /usr/bin/python3 -c '
import gpumux
gpumux.report_progress(5)
print(gpumux.batch_size(64), gpumux.__file__)')
    [ "$said" = "64 $work/$place/gpumux/__init__.py" ] || { echo "$said"; exit 1; }
done
