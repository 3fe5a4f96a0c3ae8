#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Versions over a real ssh, as the manual sets it up, with keys that may do one thing each; and
# in files that age has encrypted.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # bats sets output and status

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	CTL=$(realpath "${CTL:-$BATS_TEST_DIRNAME/../../build/pool/bin/revdedupctl}")
	export REVDEDUP_POOL=$PWD/pool TZ=UTC
	unset SSH_AUTH_SOCK
	"$CTL" init --compression none pool --size 256M -q
}

teardown() {
	[ -z "${sshd:-}" ] || {
		kill "$sshd"
		wait "$sshd" || :
	}
}

# ctl COMMAND...: it ends with 0.
ctl() {
	run "$CTL" "$@"
	[ "$status" -eq 0 ] || {
		echo "status $status: revdedupctl $*: $output"
		return 1
	}
}

# image FILE FIRST NR: blocks that are nowhere else.
image() {
	truncate -s 8M "$1"
	dd if=/dev/urandom of="$1" bs=4096 seek="$2" count="$3" iflag=fullblock conv=notrunc \
		status=none
}

# allow KEY OPTION...: a key, and the one command that it may give.
allow() {
	[ -e "$1" ] || ssh-keygen -q -t ed25519 -N '' -f "$1"
	printf 'restrict,command="%s --pool %s serve %s" %s\n' "$CTL" "$PWD/there" "${*:2}" \
		"$(<"$1.pub")" >>authorized_keys
}

# start_sshd: on a port that is free. Sets port.
start_sshd() {
	ssh-keygen -q -t ed25519 -N '' -f host
	cat >sshd_config <<-END
		ListenAddress 127.0.0.1
		HostKey $PWD/host
		AuthorizedKeysFile $PWD/authorized_keys
		PidFile none
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		PermitRootLogin yes
		Subsystem sftp internal-sftp
	END
	[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
	for _ in {1..20}; do
		port=$((20000 + RANDOM))
		/usr/sbin/sshd -D -e -f "$PWD/sshd_config" -p "$port" 2>>log 3>&- &
		sshd=$!
		until grep -q "listening on 127.0.0.1 port $port" log; do
			kill -0 "$sshd" 2>/dev/null || break
			sleep 0.02
		done
		! kill -0 "$sshd" 2>/dev/null || return 0
	done
	cat log
	return 1
}

# with KEY: the command of ssh for it.
with() {
	echo "ssh -F none -i $1 -o IdentitiesOnly=yes -o BatchMode=yes" \
		"-o StrictHostKeyChecking=no -o UserKnownHostsFile=known"
}

@test "keys that may only add, and only read" {
	local url before
	image 1.img 0 500
	cp 1.img 2.img
	image 2.img 700 3
	ctl snapshot web1 --from 1.img
	ctl snapshot web1 --from 2.img
	ctl snapshot db --from 2.img
	"$CTL" init --compression none there --size 256M -q
	allow push --append-only --volumes "'web*'"
	allow pull --read-only
	start_sshd
	url=ssh://$(id -un)@127.0.0.1:$port$PWD/there
	ctl send web1 --to "$url" --rsh "$(with push)"
	ctl send web1 --to "$url" --rsh "$(with push)"
	[[ $output == "nothing new to send to "* ]]
	"$CTL" --pool there dump web1@1 | cmp - 1.img
	"$CTL" --pool there dump web1@2 | cmp - 2.img

	# Another pool is named, and is not the one: the key says which.
	ctl send web1 --to "${url%there}nowhere" --rsh "$(with push)"
	# All that the key of the sender is not for.
	run "$CTL" send db --to "$url" --rsh "$(with push)"
	[ "$status" -eq 3 ]
	[[ $output == *"it may not write to that volume"* ]]
	run "$CTL" receive web1 --as stolen --from "$url" --rsh "$(with push)"
	[ "$status" -eq 1 ]
	[[ $output == *"this end may only be added to"* ]]
	before=$("$CTL" --pool there list)
	for command in "cat $PWD/there/data" "$CTL --pool $PWD/there delete web1@1" sh \
		"$CTL --pool $PWD/there serve" ""; do
		# shellcheck disable=SC2046,SC2086 # words
		run timeout 120 $(with push) -p "$port" "$(id -un)@127.0.0.1" $command <1.img
		[ "$status" -ne 0 ]
		[[ $output == *"is no stream of versions"* ]]
		[ "${#output}" -lt 1000 ]
	done
	# shellcheck disable=SC2046 # words
	! $(with push) -N -p "$port" -o ExitOnForwardFailure=yes -R 0:127.0.0.1:1 \
		"$(id -un)@127.0.0.1" 2>forward || return
	[ "$("$CTL" --pool there list)" = "$before" ]

	run "$CTL" send db --to "$url" --rsh "$(with pull)"
	[ "$status" -eq 1 ]
	[[ $output == *"this end may only be read"* ]]
	"$CTL" init --compression none again --size 256M -q
	ctl --pool again receive --all --from "$url" --rsh "$(with pull)"
	"$CTL" --pool again dump web1@2 | cmp - 2.img
	ctl --pool there check
	# A key that nothing is said of.
	ssh-keygen -q -t ed25519 -N '' -f other
	run "$CTL" send web1 --to "$url" --rsh "$(with other)"
	[ "$status" -eq 1 ]
	[[ $output == *"Permission denied"* ]]
}

@test "a full one and increments, encrypted by age, are enough" {
	local nr
	age-keygen -o key 2>said
	image 1.img 0 300
	for nr in {1..13}; do
		[ "$nr" = 1 ] || image 1.img $((nr * 100)) 5
		cp --sparse=always 1.img "want.$nr"
		ctl snapshot vm1 --from 1.img
		since=()
		[ "$nr" = 1 ] || since=(--since $((nr - 1)))
		"$CTL" send "vm1@$nr" "${since[@]}" |
			age -r "$(sed -n 's/^# public key: //p' key)" >"file.$nr.age"
	done
	[ "$(cat file.{2..13}.age | wc -c)" -lt $((12 * 60000)) ]
	# None of the content is there as it was.
	! grep -qF "RDSTRM" file.*.age || return
	rm -rf pool
	"$CTL" init --compression none pool --size 256M -q
	for nr in {1..6} {8..9}; do
		age -d -i key "file.$nr.age" >file
		run "$CTL" receive <file
		[ "$nr" -lt 8 ] || {
			[ "$status" -eq 1 ]
			[[ ${lines[0]} == *"holds what changed since version $((nr - 1)) "* ]]
			[[ ${lines[1]} == *"here is 'vm1@6' "* ]]
			continue
		}
		[ "$status" -eq 0 ]
	done
	for nr in {7..13}; do
		age -d -i key "file.$nr.age" >file
		ctl receive <file
	done
	for nr in {1..13}; do
		"$CTL" dump "vm1@$nr" | cmp - "want.$nr"
	done
	ctl check
	# Of one that is damaged age says so; what it has given out already is of use, or of none.
	"$CTL" init --compression none third --size 256M -q
	printf x | dd of=file.1.age bs=1 seek=700000 conv=notrunc status=none
	age -d -i key file.1.age 2>said | { ! "$CTL" --pool third receive 2>>said; }
	ctl --pool third check
	[ -z "$("$CTL" --pool third list | sed '/ is arriving: /d')" ]
}
