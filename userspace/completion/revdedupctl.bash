# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Completion of revdedupctl for bash; 'revdedupctl __complete' knows what fits.

_revdedupctl()
{
	local line=${COMP_LINE:0:COMP_POINT} cur line_breaks='' head='' reply char
	local -a words
	read -r -a words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	cur=${words[-1]}
	# Of "vm1@3" bash replaces only what follows the last character that breaks words.
	for char in = : @; do
		[[ $COMP_WORDBREAKS != *"$char"* ]] || line_breaks+=$char
	done
	if [[ -n $line_breaks && $cur == *["$line_breaks"]* ]]; then
		head=${cur%"${cur##*["$line_breaks"]}"}
		# Before @ it begins with that character: readline thinks of USER@HOST.
		head=${head%@}
	fi
	COMPREPLY=()
	while IFS= read -r reply; do
		if [[ $reply == $'\tfiles' ]]; then
			compopt -o default 2>/dev/null || :
			continue
		fi
		reply=${reply%%$'\t'*}
		[[ $reply != *@ ]] || compopt -o nospace 2>/dev/null || :
		COMPREPLY+=("${reply#"$head"}")
	done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _revdedupctl revdedupctl
