#!/bin/sh
# options.sh COMMAND SOURCE-DIRECTORY: every command and option of the help is in the man page, docs/cli.md and the three
# completions, and nothing there is invented.
set -u
H=$1
root=$2
failed=0
say() {
  echo "$1"
  failed=$((failed + 1))
}
commands=$("$H" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 7 ] || say "headroom help lists fewer commands than there are"
# The man page without its escapes: \- and \fB.
man=$(sed -e 's/\\-/-/g' -e 's/\\f[BIR]//g' "$root/docs/man/headroom.1")
grep -q "\"$("$H" --version)\"" "$root/docs/man/headroom.1" || say "the man page is of another version"
all=" "
for command in $commands; do
  for file in docs/cli.md completions/headroom.bash completions/headroom.zsh completions/headroom.fish; do
    grep -q "\b$command\b" "$root/$file" || say "$file does not name the command $command"
  done
  echo "$man" | grep -q "\.B $command\$" || say "the man page does not name the command $command"
  options=$("$H" "$command" --help | sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/\2/p')
  [ -n "$options" ] || say "headroom $command --help shows no options"
  # Of bash, the list that the completion itself gives.
  bash_options=" $(bash -c ". '$root/completions/headroom.bash'; echo \$(_headroom_options $command)") "
  for option in $options; do
    all="$all$option "
    echo "$man" | grep -q -e "--$option\b" || say "the man page lacks --$option"
    grep -q -e "--$option\b" "$root/docs/cli.md" || say "docs/cli.md lacks --$option"
    grep -q -e "--$option\b" "$root/completions/headroom.zsh" || say "headroom.zsh lacks --$option"
    grep -q -e "-l $option\b" "$root/completions/headroom.fish" || say "headroom.fish lacks --$option"
    case $bash_options in *" --$option "*) ;; *) say "headroom.bash lacks --$option of $command" ;; esac
  done
  for option in $bash_options; do
    echo "$options" | grep -qx -e "${option#--}" || say "headroom.bash has $option for $command, which it lacks"
  done
done
documented=$(echo "$man" | grep -o -e '--[a-z][a-z-]*' | sort -u)
for option in $documented $(grep __headroom_add "$root/completions/headroom.fish" | grep -o -e ' -l [a-z-]*' | sed 's/ -l /--/' | sort -u); do
  case "$all version " in *" ${option#--} "*) ;; *) say "$option is documented, but no command has it" ;; esac
done
[ "$failed" -eq 0 ] && echo "all options are documented"
[ "$failed" -eq 0 ]
