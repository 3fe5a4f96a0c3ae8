# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What vm-run.sh and uml-run.sh share: what goes into a guest, and how its verdict
# comes out. Sourced, not run, after these are set:
#
#   $dir        a directory for this guest alone
#   $console    file for the console's log
#   $payloads $timeout $cut_after $power_cut $verbose    as in the help of both
#
# and before run_guest, start_guest and cut_power are to be defined.

# shellcheck disable=SC2034,SC2154 # by whoever sources this

guest_pid='' out='' cat_pid=''

# What tells the guest's own lines from what a test may print.
read -r token </proc/sys/kernel/random/uuid

# fail CODE MESSAGE, with what is known about the reason.
fail() {
	note "$2"
	if [ -s "$console" ]; then
		note "the console's last lines:"
		tail -n 80 "$console" >&2
	fi
	! [ -s "$dir/log" ] || cat "$dir/log" >&2
	exit "$1"
}

# pack_payload FIRST_LINE COMMAND [ARG]...: all that the guest gets in a tar file,
# with the command as a script in it that begins with FIRST_LINE.
pack_payload() {
	local root=$dir/root spec src path
	mkdir "$root"
	for spec in "${payloads[@]}"; do
		src=${spec%%:*}
		path=${src##*/}
		[[ $spec != *:* ]] || path=${spec#*:}
		[ -e "$src" ] || die "no such payload: '$src'"
		mkdir -p "$root/$path"
		[ -d "$src" ] || rmdir "$root/$path"
		cp -rT "$src" "$root/$path"
	done
	printf '%s\nexec' "$1" >"$root/command"
	printf ' %q' "${@:2}" >>"$root/command"
	tar -c -C "$root" --owner=0 --group=0 -f "$dir/payload.tar" .
}

# What the guest prints goes through the pipe $dir/out to standard output. It is
# also open in $out, until the guest is gone, even if it never comes.
open_out() {
	mkfifo "$dir/out"
	cat "$dir/out" &
	cat_pid=$!
	exec {out}>"$dir/out"
}

now_ms() {
	local us=${EPOCHREALTIME/[.,]/}
	echo $((us / 1000))
}

# ms SEC: a number of seconds, which may have a fraction, in milliseconds.
ms() { printf '%.0f' "${1}e3"; }

# Start the guest and see how it comes out: sets $started, $verdict, $cut_at and
# $ended. The standard output of start_guest is the control line, so its end is
# that of the guest.
watch_guest() {
	local control begin end now left line r
	started=false verdict='' cut_at='' ended=false
	begin=$(now_ms)
	end=$((begin + $(ms "$timeout")))
	exec {control}< <(start_guest)
	guest_pid=$!
	until $ended; do
		now=$(now_ms)
		left=$(((cut_at ? cut_at : end) - now))
		[ "$left" -gt 0 ] || break
		printf -v left '%d.%03d' $((left / 1000)) $((left % 1000))
		line='' r=0
		read -r -t "$left" -u "$control" line || r=$?
		line=${line%$'\r'}
		case $line in
		"$token start")
			started=true
			! $verbose ||
				note "the command starts after $(($(now_ms) - begin)) ms"
			[ -z "$cut_after" ] || cut_at=$(($(now_ms) + $(ms "$cut_after")))
			;;
		"$token cut")
			$power_cut ||
				fail 1 "the guest asked for a power cut: is --power-cut missing?"
			cut_at=$(now_ms)
			;;
		"$token exit "*)
			verdict=${line##* }
			# What remains is to sync the disks, which the host may be slow to do.
			cut_at='' end=$(($(now_ms) + 600000))
			;;
		esac
		# Without a line, read ends with over 128 by the clock, with 1 by
		# the guest.
		[ "$r" -ne 1 ] || ended=true
	done

	# Three ways out of the loop: it ended, the power goes, or the time is over.
	if $ended; then
		guest_pid=''
	else
		cut_power
	fi
	exec {control}<&-
}

# Start the guest and exit as its verdict says.
run_guest() {
	local started verdict cut_at ended tries=3
	while watch_guest; $ended && ! $started && [ "$tries" -gt 1 ]; do
		# A kernel that patches itself while another CPU runs there can die
		# of it under emulation (Oops: int3). Nothing of ours was there yet.
		note "the guest died before the command started: once more"
		tail -n 3 "$console" >&2
		tries=$((tries - 1))
	done
	exec {out}>&-
	wait "$cat_pid"

	if ! $ended && [ -n "$cut_at" ]; then
		exit 0
	elif ! $ended && [ -n "$verdict" ]; then
		fail 124 "the command ended ($verdict), and then the guest did not"
	elif ! $ended; then
		fail 124 "the time is over ($timeout s)"
	elif [ -z "$verdict" ] || grep -q 'Kernel panic' "$console"; then
		fail 125 "the guest ended without a verdict"
	elif [ "$verdict" -ne 0 ]; then
		# Its own output is likely to say why.
		note "the command failed ($verdict)"
		tail -n 10 "$console" >&2
		exit "$verdict"
	elif $power_cut || [ -n "$cut_after" ]; then
		fail 1 "the command ended before the power was cut"
	fi
}
