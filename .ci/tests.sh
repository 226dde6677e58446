# To be sourced, with a folder of the caller's in $dir.

# tests runs go test, and each test that failed once more: hundreds of processes and sockets have deadlines, and a machine may stand still
# for a while. What fails twice fails, and so does at once a race, a panic, which is also how a package ends that takes too long, or what
# is not built. What failed once stands in the output, to be looked into.
tests() {
  ${nice:-} go test "$@" 2>&1 | tee "$dir/said" && return
  ! grep -qE '^(WARNING: DATA RACE|fatal error: |panic: )' "$dir/said" || return 1
  # A line for each package that failed: its path and a pattern of its tests. One that names none, which was not built, is not tried again.
  awk '/^--- FAIL: /{names = names "|" $3} /^ok  \t|^\?   \t/{names = ""}
    /^FAIL\t/{if (names == "") exit bad = 1; print $2 "\t^(" substr(names, 2) ")$"; names = ""} END{exit bad}' "$dir/said" >"$dir/failed" || return
  [ -s "$dir/failed" ] || return 1
  local package names flags=()
  for word in "$@"; do case $word in -*|*[0-9][msh]) flags+=("$word") ;; esac; done
  while IFS=$'\t' read -r package names <&4; do
    printf '\n!! FAILED ONCE, see above. Once more: go test %s -run %q %s\n' "${flags[*]}" "$names" "$package"
    ${nice:-} go test "${flags[@]}" -run "$names" "$package" || return
    printf '!! passed the second time\n'
  done 4<"$dir/failed"
}
