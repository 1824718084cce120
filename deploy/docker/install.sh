#!/bin/sh
# Installs Xoe in a Debian system that becomes an image: Python, and a virtual environment in /opt/xoe.
#   install.sh WHEELS [REQUIREMENT...]
# WHEELS: the folder with Xoe's wheels (scripts/wheel.sh). REQUIREMENTs, such as torch, come from there or from pip's index; Xoe itself
# only from there.
set -eu
wheels=$1
shift

apt-get update
apt-get install -y --no-install-recommends python3 python3-venv
python3 -m venv /opt/xoe
/opt/xoe/bin/pip install --no-cache-dir --find-links "$wheels" cloudpickle "$@"
/opt/xoe/bin/pip install --no-cache-dir --no-index --find-links "$wheels" xoe
/opt/xoe/bin/pip uninstall -y setuptools # pip stays, for images that are made from this one
