#!/bin/sh
# Makes the frame of a skill: new-skill.sh DIRECTORY, as .skills/my-skill
set -eu
dir=${1:?usage: new-skill.sh DIRECTORY}
name=$(basename "$dir")
case $name in
-* | *- | *--* | *[!a-z0-9-]* | '')
	echo "new-skill: '$name' is no name: a to z, 0 to 9 and single hyphens only" >&2
	exit 1
	;;
esac
if [ "${#name}" -gt 64 ]; then
	echo "new-skill: the name is longer than 64 characters" >&2
	exit 1
fi
if [ -e "$dir" ]; then
	echo "new-skill: $dir exists already" >&2
	exit 1
fi
mkdir -p "$dir"
cat >"$dir/SKILL.md" <<END
---
name: $name
description: FILL IN what it does. Use when FILL IN.
metadata:
  version: 0.1.0
---
# $name

1. FILL IN the first step.
END
echo "$dir/SKILL.md"
