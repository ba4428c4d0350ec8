#!/bin/sh
# Checks a skill before it is used: check-skill.sh DIRECTORY
# Ends with 0 when nothing is wrong, else with 1 and one line for each problem.
set -u
dir=${1:?usage: check-skill.sh DIRECTORY}
file=$dir/SKILL.md
wrong=0
say() {
	echo "$file: $1"
	wrong=1
}

if [ ! -f "$file" ]; then
	say "does not exist"
	exit 1
fi
[ "$(head -n 1 "$file")" = "---" ] || say "must begin with a line ---"
[ "$(grep -c '^---[[:space:]]*$' "$file")" -ge 2 ] || say "the front matter does not end with a line ---"

head=$(awk 'NR > 1 && /^---[ \t]*$/ { exit } NR > 1' "$file")
field() { printf '%s\n' "$head" | sed -n "s/^$1:[[:space:]]*//p" | head -n 1; }

name=$(field name | tr -d "\"'")
[ "$name" = "$(basename "$(cd "$dir" && pwd)")" ] || say "name '$name' is not that of its directory"
case $name in
-* | *- | *--* | *[!a-z0-9-]* | '') say "name '$name': a to z, 0 to 9 and single hyphens only" ;;
esac
[ "${#name}" -le 64 ] || say "name is longer than 64 characters"

description=$(field description)
[ -n "$description" ] || say "description is missing"
[ "${#description}" -le 1024 ] || say "description is longer than 1024 characters"
case $description in
*[Ww]hen* | *[Bb]efore* | '|' | '>' | '|-' | '>-') ;;
*) say "description does not say when to use the skill" ;;
esac

[ "$(wc -l <"$file")" -le 500 ] || say "has more than 500 lines: move details to references/"
grep -n 'FILL IN' "$file" | while read -r line; do echo "$file:$line"; done
grep -q 'FILL IN' "$file" && wrong=1

# Files that the text names must be there.
for path in $(grep -oE '(scripts|references|assets)/[A-Za-z0-9_./-]+' "$file" | sed 's/[.]$//' | sort -u); do
	case $path in */) continue ;; esac
	[ -e "$dir/$path" ] || say "names $path, which does not exist"
done
[ $wrong -eq 0 ] && echo "$file: nothing is wrong"
exit $wrong
