#!/bin/sh
# check_exit_codes.sh SIMULATE runs the program on every faulty config. It must exit with status 2
# and print the expected lines on standard error and nothing on standard output.
simulate=$1
cd "$(dirname "$0")" || exit 1
err=$(mktemp) || exit 1
trap 'rm -f "$err"' EXIT
bad=0
count=0
for file in *.yaml *.json; do
  expected="${file%.*}.expected"
  set --
  if [ -f "${file%.*}.options" ]; then
    while IFS= read -r option; do
      set -- "$@" --set "$option"
    done <"${file%.*}.options"
  fi
  out=$("$simulate" --config "$file" "$@" 2>"$err")
  status=$?
  count=$((count + 1))
  if [ $status -ne 2 ] || [ -n "$out" ] || ! cmp -s "$err" "$expected"; then
    echo "$file: exit status $status; expected 2 and:"
    diff "$expected" "$err"
    bad=$((bad + 1))
  fi
done
echo "$count faulty configs, $bad wrong"
[ $count -ge 60 ] && [ $bad -eq 0 ]
