# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script here needs: messages, the cache, and root. Sourced, not run.

# Without inherit_errexit a failure inside $(...) would go unnoticed.
set -euo pipefail
shopt -s inherit_errexit

# The name of the script that the user called, for messages.
prog=${0##*/}

# Everything that takes long to make is kept here, outside the tree, and is
# named after what it was made from, so that nothing in it ever goes stale. The
# path is absolute, as scripts use it in other directories.
cache=$(realpath -m "${REVDEDUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/revdedup}")

# Debian's programs, which setup.sh installs: what comes before them in somebody's PATH can be
# another version, or take ten times as long (a python3 of pyenv). A compiler's output is kept
# for all trees, with debug information that does not name them.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ -d /usr/lib/ccache ]; then
	PATH=/usr/lib/ccache:$PATH
	export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache} CCACHE_NOHASHDIR=1
fi
export PATH

note() { printf '%s: %s\n' "$prog" "$*" >&2; }

die() {
	note "$@"
	exit 1
}

# A wrong command line, as against a failure.
usage_error() {
	note "$@" "(try --help)"
	exit 2
}

# Print the comment at the head of the calling script: that is its help.
show_help() {
	sed -n '1,3d; /^#/!q; /^# shellcheck/d; s/^# \{0,1\}//p' "$0"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "'$1' needs root: run this as root, or install sudo"
	fi
}

# cached NAME COMMAND...: print the path of NAME in the cache. Where it is not
# there, run COMMAND with a directory to fill as its last argument, which only
# becomes NAME when COMMAND succeeded. Whoever comes second waits for the first.
# Do not test the status of this function: bash would then ignore -e inside it.
cached() {
	local dir=$cache/$1 lock tmp
	shift
	if [ ! -d "$dir" ]; then
		mkdir -p "${dir%/*}"
		exec {lock}>"$dir.lock"
		flock "$lock"
		if [ ! -d "$dir" ]; then
			tmp=$dir.new
			rm -rf "$tmp"
			mkdir "$tmp"
			"$@" "$tmp" >&2
			mv "$tmp" "$dir"
		fi
		exec {lock}>&-
	fi
	printf '%s\n' "$dir"
}
