# SPDX-License-Identifier: GPL-2.0
# Completion of revdedupctl for fish; 'revdedupctl __complete' knows what fits.

function __revdedupctl_complete
	set -l words (commandline -opc)
	set -l program $words[1]
	set -l word (commandline -ct)
	set -e words[1]
	for line in ($program __complete -- $words "$word" 2>/dev/null)
		if test "$line" = \tfiles
			set -l before (string match -r '^--[a-z-]+=' -- "$word")
			set -l path (string replace -r '^--[a-z-]+=' '' -- "$word")
			__fish_complete_path "$path" | string replace -r '^' -- "$before"
		else
			echo $line
		end
	end
end

complete -c revdedupctl -f -a '(__revdedupctl_complete)'
