#!/bin/sh
set -eu
gcc -Os -static -s -Wall -Werror -o /run/build/layer/pause /run/build/recipe/pause.c
