# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2046,SC2086,SC2154,SC2206 # see live-random.bats, which loads this
#
# Dedup of a volume in use, and its way back, among all other commands: undisturbed, beside a
# writer, with writes at a step, killed at a step, or stopped by a signal at any moment. Each case
# must have come up in the end:
#
#   MODE:quiet          zeros, pool or undo; nobody interferes
#   MODE:beside         the volume is written and read meanwhile
#   MODE:signal         the same, and SIGINT or SIGTERM comes at some moment
#   MODE:stopped:STEP   the command waits at that step, while the volume is written and a version
#                       is deleted
#   MODE:killed:STEP    it dies there; then maybe the host boots, or another command comes

dedup_cases() {
	local mode step
	for mode in zeros pool undo; do
		echo $mode:quiet $mode:beside $mode:signal
	done
	for step in dedup-table dedup-marked dedup-aliased dedup-shed; do
		echo zeros:killed:$step pool:killed:$step
	done
	for step in dedup-marked dedup-aliased dedup-shed; do
		echo zeros:stopped:$step pool:stopped:$step
	done
	echo pool:killed:dedup-leased undo:stopped:undo-started undo:killed:undo-{started,home}
}

# missing: print the cases that have not come up, in the order of $order.
missing() {
	local name
	for name in "${order[@]}"; do
		[ -n "${count[$name]:-}" ] || echo $name
	done
}

# --- how a volume stands

# is_home VOL: is nothing in the pool, or zeros by the metadata alone?
is_home() {
	dmsetup status "${1##*/}" | awk '{ exit $10 || $11 }'
}

# base_is VOL: all is home, so the volume below is what it was.
base_is() {
	dd if=/dev/$vg/$1 bs=1M iflag=direct status=none | cmp - $want/$1 || {
		echo "$1 has changed below its device"
		return 1
	}
}

# --- a writer beside

# Write and read until the file is gone.
beside() {
	set -e
	while [ -e /tmp/writing ]; do
		put_random $1 $((RANDOM % 24 + 1))
		read_some $1
	done >/tmp/writer-said 2>&1
}

# read_some VOL: a piece is what it was.
read_some() {
	local at=$((RANDOM % (mib * 4)))
	dd if="$(device_of $1)" of=/tmp/read bs=256k count=1 skip=$at iflag=direct status=none
	cmp -i 0:$((at << 18)) -n $((1 << 18)) /tmp/read $want/$1
}

disturb() {
	: >/tmp/writing
	beside $1 3>&- &
	writer=$!
}

quiet_again() {
	rm /tmp/writing
	wait $writer || {
		echo "the writer beside has failed:"
		cat /tmp/writer-said
		return 1
	}
}

# --- what is needed before

# Zeros that take up space.
need_zeros() {
	local at=$((RANDOM % (mib * 16 - 24))) len=$((RANDOM % 16 + 8))
	head -c $((len << 16)) /dev/urandom >/tmp/piece
	put $1 $((at << 16))
	head -c $((len << 16)) /dev/zero >/tmp/piece
	put $1 $((at << 16))
}

# A version that is the newest, or was it before some writes.
need_pool() {
	put_random $1 128
	[ $((RANDOM % 3)) -eq 0 ] || {
		revdedupctl "${pool[@]}" -q snapshot $vg/$1 3>&-
		take_new $1
	}
	[ $((RANDOM % 2)) -ne 0 ] || scribble $1
}

need_undo() {
	! is_home "$(device_of $1)" || {
		need_pool $1
		words_of pool
		dedup_is $1 quiet
		[ $status -eq 0 ] || refused
	}
	words_of undo
}

# words_of MODE: what the command is called with, in $words.
words_of() {
	case $1 in
	zeros) words=(trim) ;;
	pool) words=("${pool[@]}" offload --cold 0 --force --yes) ;;
	undo) words=(recall) ;;
	esac
}

# --- the command

# Reasons to refuse, each of which another command has made.
refusals='a snapshot of .* was interrupted
is being copied back
no version of .* can stand for its present content
reads blocks of an older version
lie in another pool
MiB are needed'

# refused: is what it said one of them?
refused() {
	local why
	why=$(grep -oEf <(echo "$refusals") /tmp/said | head -n 1)
	[ -n "$why" ] || {
		echo "dedup failed with $status:"
		return 1
	}
	echo "  refused: $why"
	count[refused]=$((${count[refused]:-0} + 1))
}

# ended CASE VOL: by itself, with $status.
ended() {
	[ $status -eq 0 ] || {
		refused
		return
	}
	# Where there was nothing to do, the case has not come up.
	grep -qE 'found 0 B|, 0 B of it since|copied 0 B' /tmp/said ||
		count[$1]=$((${count[$1]:-0} + 1))
	[[ $1 != undo:* ]] || is_home "$(device_of $2)"
	! is_home "$(device_of $2)" || base_is $2
}

# dedup_is VOL HOW [STEP]: run it with $words; the file said has what it says.
dedup_is() {
	local fail=() pid
	status=0
	rm -f /tmp/steps
	[ -z "${3:-}" ] || fail=("REVDEDUP_FAIL=$3=${2/stopped/stop}")
	env "${fail[@]/killed/kill}" REVDEDUP_FAIL_LOG=/tmp/steps revdedupctl "${words[@]}" \
		$vg/$1 >/tmp/said 2>&1 3>&- &
	pid=$!
	case $2 in
	stopped) while_stopped $pid $1 ;;
	signal)
		sleep $((RANDOM % 2)).$((RANDOM % 10))
		kill -$(any_of INT TERM) $pid 2>/dev/null || :
		;;
	esac
	wait $pid || status=$?
	echo "  ${words[*]}: $status"
	cat /tmp/said
}

# while_stopped PID VOL
while_stopped() {
	while kill -0 $1 2>/dev/null && ! is_stopped $1; do sleep 0.05; done
	kill -0 $1 2>/dev/null || return 0
	scribble $2
	[ $((RANDOM % 2)) -eq 0 ] || [ -z "$(versions)" ] || do_delete
	kill -CONT $1
}

after_kill() {
	local vol=$1
	case $(any_of nothing boot boot snapshot again) in
	boot)
		echo "  boot"
		down "$(device_of $vol)"
		revdedupctl -q attach $vg/$vol 3>&-
		;;
	snapshot) do_snapshot $vol ;;
	again)
		dedup_is $vol quiet
		[ $status -eq 0 ] || refused
		;;
	esac
}

# one_dedup CASE VOL
one_dedup() {
	local mode how step words pool=() status
	IFS=: read -r mode how step <<<"$1"
	[ $((RANDOM % 5)) -ne 0 ] || pool=(-p $other)
	echo "  $1 $2 ${pool[*]}"
	need_$mode $2
	words_of $mode
	[[ $how == quiet || $how == stopped ]] || [ $how$((RANDOM % 2)) = killed0 ] || disturb $2
	dedup_is $2 $how $step
	[ ! -e /tmp/writing ] || quiet_again
	case $how:$status in
	killed:137)
		count[$1]=$((${count[$1]:-0} + 1))
		volume_is $2
		after_kill $2
		;;
	signal:130) count[$1]=$((${count[$1]:-0} + 1)) ;;
	# What it waits for never came.
	killed:0) ended $mode:beside $2 ;;
	signal:0) ended $mode:beside $2 ;;
	stopped:*)
		grep -q '^!' /tmp/steps || set -- $mode:quiet $2
		ended $1 $2
		;;
	*) ended $1 $2 ;;
	esac
	volume_is $2
}

# Mostly one that has not come up.
do_dedup() {
	local todo
	mapfile -t todo < <(missing)
	[ ${#todo[@]} -gt 0 ] && [ $((RANDOM % 4)) -ne 0 ] ||
		todo=("${order[@]:RANDOM % ${#order[@]}}")
	one_dedup ${todo[0]} $(any_of "${thin[@]}")
}
