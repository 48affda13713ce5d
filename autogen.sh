#!/bin/sh
# Makes ./configure and config.h.in from configure.ac. SPDX-License-Identifier: LGPL-2.1-or-later
set -eu
cd "$(dirname "$0")"
autoreconf -f -i
