#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# options.sh COMMAND SOURCE-DIRECTORY GENERATED-DIRECTORY: every command and option of the help is in docs/cli.md, which
# names no other; the generated completions and manual page have them all and are well formed. The help says what an
# option's default is.
set -u
H=$(realpath "$1")
root=$2
made=$3
failed=0
say() {
  echo "$1"
  failed=$((failed + 1))
}
has() { command -v "$1" > /dev/null; }

# ---- the generated files are well formed ----
bash -n "$made/headroom.bash" || say "headroom.bash has an error"
! has zsh || zsh -n "$made/headroom.zsh" || say "headroom.zsh has an error"
! has fish || fish -n "$made/headroom.fish" || say "headroom.fish has an error"
if has man; then
  warnings=$(man --warnings -l "$made/headroom.1" 2>&1 > /dev/null)
  [ -z "$warnings" ] || say "man: $warnings"
fi
if has mandoc; then
  mandoc -T lint -W warning "$made/headroom.1" | grep -v 'missing date' && say "mandoc has warnings"
fi
grep -n '@[A-Z]*@' "$made/headroom.1" && say "the manual page has a place that was not filled"
grep -q "\"$("$H" --version)\"" "$made/headroom.1" || say "the manual page is of another version"

# ---- they and docs/cli.md have every command and option ----
man=$(sed -e 's/\\-/-/g' -e 's/\\f[BIR]//g' "$made/headroom.1")
commands=$("$H" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 7 ] || say "headroom help lists fewer commands than there are"
all=" "
for command in $commands; do
  for file in "$root/docs/cli.md" "$made/headroom.bash" "$made/headroom.zsh" "$made/headroom.fish"; do
    grep -q "\b$command\b" "$file" || say "$file does not name the command $command"
  done
  echo "$man" | grep -q "\.B $command\$" || say "the manual page does not name the command $command"
  options=$("$H" "$command" --help | sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/\2/p')
  [ -n "$options" ] || say "headroom $command --help shows no options"
  # The options that each shell completes for this command.
  bash_options=$(bash -c ". '$made/headroom.bash'; _headroom_options $command" | tr ' ' '\n' | sed 's/^--//' | sort)
  zsh_options=$(sed -n "/^    $command)/,/;;/p" "$made/headroom.zsh" | sed -n "s/^ *'\((-. \)\{0,1\}--\([a-z-]*\).*/\2/p" | sort)
  fish_options=$(sed -n "s/.*__headroom_uses $command' -l \([a-z-]*\).*/\1/p" "$made/headroom.fish" | sort)
  sorted=$(echo "$options" | sort)
  for shell in bash zsh fish; do
    eval "found=\$${shell}_options"
    [ "$found" = "$sorted" ] || say "$shell completes other options of $command: $(echo $found)"
  done
  for option in $options; do
    all="$all$option "
    echo "$man" | grep -q -e "--$option\b" || say "the manual page lacks --$option"
    grep -q -e "--$option\b" "$root/docs/cli.md" || say "docs/cli.md lacks --$option"
  done
done

# ---- an option with an argument has a default ----
missing=$(for command in $commands; do
  "$H" "$command" --help | awk -v command="$command" '
    function check() { if (text ~ /^  (-., |    )--[a-z-]+ [^ ]/ && text !~ /default/) print command ": no default: " text }
    /^Examples:/ { exit }
    /^  (-., |    )--/ { check(); text = $0; next }
    /^                    / { text = text " " $0; next }
    { check(); text = "" }
    END { check() }'
done)
[ -z "$missing" ] || say "$missing"

# ---- other names of options ----
synonyms=$("$H" help names | sed -n 's/^--\([a-z-]*\) *--\([a-z-]*\) .*/\1/p' | sort -u)
[ "$(echo "$synonyms" | wc -w)" -ge 20 ] || say "headroom help names lists fewer names than there are"
for synonym in $synonyms; do
  all="$all$synonym "
  echo "$man" | grep -q -e "--$synonym\b" || say "the manual page lacks --$synonym"
  grep -q -e "--$synonym\b" "$root/docs/notes/option-names.md" || say "docs/notes/option-names.md lacks --$synonym"
done
for option in $(echo "$man" | grep -o -e '--[a-z][a-z-]*' | sort -u); do
  case "$all version licenses " in *" ${option#--} "*) ;; *) say "the manual page has $option, which no command has" ;; esac
done

# ---- bash completes ----
# complete WORD...: what bash offers for the last word
complete() {
  PATH=$(dirname "$H"):$PATH bash -c '. "$0"; COMP_WORDS=(headroom "$@"); COMP_CWORD=$#; compopt() { :; }; _headroom
    echo ${COMPREPLY[@]}' "$made/headroom.bash" "$@"
}
[ "$(complete des)" = describe ] || say "bash completes a command"
[ "$(complete gemm --transp)" = "--transpose-a --transpose-b" ] || say "bash completes an option"
[ "$(complete layer --phase pre)" = prefill ] || say "bash completes a value"
[ "$(complete layer -d h200)" = h200 ] || say "bash completes a device: $(complete layer -d h200)"
[ "$(complete describe gpt2-m)" = gpt2-medium ] || say "bash completes a model: $(complete describe gpt2-m)"
[ "$(complete results del)" = delete ] || say "bash completes an action"

# ---- fish completes, if it is there ----
fish_completes() {
  PATH=$(dirname "$H"):$PATH fish --no-config -c "source '$made/headroom.fish'; complete -C '$1'" | cut -f1 | tr '\n' ' '
}
if has fish; then
  [ "$(fish_completes 'headroom describe --pha')" = '--phase ' ] || say "fish completes an option"
  [ "$(fish_completes 'headroom layer gpt2-m')" = 'gpt2-medium ' ] || say "fish completes a model"
fi

[ "$failed" -eq 0 ] && echo "all options are documented"
[ "$failed" -eq 0 ]
