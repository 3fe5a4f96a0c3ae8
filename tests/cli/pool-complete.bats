#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Completion: what 'revdedupctl __complete' offers, and the scripts of the three shells.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
load pool

scripts=$BATS_TEST_DIRNAME/../../userspace/completion

# offers WORD... -- CANDIDATE...: after these words, the last of which is not complete.
offers() {
	local words=()
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	must __complete -- "${words[@]}"
	[ "$(cut -f 1 <<<"$output" | paste -sd " ")" = "$*" ] || {
		echo "after '${words[*]}': $output"
		return 1
	}
}

make_names() {
	make_versions
	must snapshot vg/vm-2 --from 1.img --tag silver --comment $'a\ttab'
	must tag vm1@2 +gold
}

@test "complete: commands and options" {
	offers sn -- snapshot
	offers st -- status stats
	offers rm -- rm
	offers -p x --json snapsh -- snapshot
	offers help unpr -- unprotect
	offers list --j -- --json
	offers --v -- --version
	offers ls --js -- --json
	offers snap --full -- --full-scan
	offers scrub --progress al -- always
	offers scrub --progress=a -- --progress=auto --progress=always
	offers init pool --compression "" -- none zstd zstd:3
	offers snapshot vm1 --compression=z -- --compression=zstd --compression=zstd:3
	offers recompress z -- zstd zstd:3
	offers init pool --pieces "" -- auto 1 512
	offers snapshot vm1 --pieces "" -- 1 512
	offers tune vm1 --dedup=i -- --dedup=inline
	offers frobnicate x --
	offers __com --
	must __complete -- ""
	[ "$(cut -f 1 <<<"$output")" = "$("$build/bin/revdedupctl" help | sed -n 's/^  \([a-z-]*\) .*/\1/p')" ]
	for words in "init" "restore vm1@1 --to" "-p" "repair --from" "mount vm1"; do
		# shellcheck disable=SC2086 # words
		must __complete -- $words ""
		[ "$output" = $'\tfiles' ]
	done
}

@test "complete: volumes, versions, tags" {
	make_names
	offers list "" -- vg/vm-2 vm1
	offers list vg -- vg/vm-2
	offers stats --lo -- --lock-wait
	# What is only in revdedup-expert(8), or only a setting, is not offered.
	offers stats --is --
	offers dedup --ol --
	offers copies --cop --
	offers snapshot vm1 --comp --
	offers snapshot vm1 --pie --
	offers snapshot vm1 --ded --
	offers tune vm1 --pie -- --pieces
	offers show v -- vg/vm-2 vm1 vg/vm-2@ vm1@
	offers restore v -- vg/vm-2@ vm1@
	offers restore vm1@ -- vm1@latest vm1@3 vm1@2 vm1@gold vm1@1
	offers restore vm1@g -- vm1@gold
	offers restore none@ --
	offers diff vm1@1 vm1@3 v --
	offers diff vm1@1 vm1@l -- vm1@latest
	offers find '*.conf' vm1@l -- vm1@latest
	# What a guest has is not looked up.
	offers files vm1@1 "" --
	offers delete vm1@1 vm1@2 vm1@l -- vm1@latest
	offers tag vm1@2 "" -- +gold -gold
	# Of one volume it is no moment.
	offers list @ --
	must tag vg/vm-2@1 +gold
	offers list @ -- @gold
	offers delete vm1@1 @g -- @gold
	offers clone @ --
	must tag vg/vm-2@1 -gold
	offers tag vm1@2 -g -- -gold
	offers prune --keep-tag "" -- silver gold
	offers snapshot vm1 --tag "" -- gold
	must __complete -- show vg/vm-2@1
	[[ $output =~ ^vg/vm-2@1$'\t'[0-9-]+\ [0-9:]+\ \ a\ tab$ ]]
	# The pool of the line.
	unset REVDEDUP_POOL
	offers list "" --
	offers --pool pool list "" -- vg/vm-2 vm1
	offers list --pool=pool "" -- vg/vm-2 vm1
	offers list -p pool "" -- vg/vm-2 vm1
	mkdir etc
	printf '[general]\npool = %s/pool\n' "$PWD" >etc/revdedup.conf
	offers list "" -- vg/vm-2 vm1
}

@test "complete: volumes that are attached" {
	mkdir -p etc/volumes
	cat >etc/volumes/revdedup-vg-vm3 <<-'END'
		volume=vg/vm3
		uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427
		base=/dev/vg/vm3
		meta=/dev/vg/vm3_rdmeta
	END
	for verb in attach detach status snapshot; do
		offers $verb v -- vg/vm3
	done
	offers snapshot --group x vg/vm2 v -- vg/vm3
}

@test "complete: unexport offers exports" {
	make_names
	export REVDEDUP_RUN=$PWD/run
	mkdir run
	printf '%s\n' name=vm1@2 "pool=$PWD/pool" uri=nbd://x socket= writable=0 >run/vm1@2.export
	echo $$ >run/vm1@2.pid
	# A file that no process has locked is a remnant.
	exec 5<run/vm1@2.export
	flock 5
	offers unexport "" -- vm1@2
	exec 5<&-
	offers unexport "" --
	[ -z "$output" ]
}

@test "complete: it waits for no lock, and is silent" {
	make_names
	# A repair has the pool, and every other command would wait for it.
	hold 0 0
	mkdir etc
	printf '[general]\nlock-wait = 1000\n' >etc/revdedup.conf
	offers list "" --
	[ -z "$output" ]
	drop
	offers list "" -- vg/vm-2 vm1
	echo nonsense >etc/revdedup.conf
	echo nonsense >pool/data
	for words in "show" "list" "unmap" "restore vm1@" "prune --keep-tag" "--tag" "status"; do
		# shellcheck disable=SC2086 # words
		must __complete -- $words ""
		[ -z "$output" ]
	done
}

# bash_offers BREAKS LINE: what the function leaves for readline to insert.
bash_offers() {
	PATH=$build/bin:$PATH bash -euc '
		. "$1/revdedupctl.bash"
		COMP_WORDBREAKS=$2 COMP_LINE=$3 COMP_POINT=${#3}
		_revdedupctl
		echo "${COMPREPLY[*]}"' bash "$scripts" "$1" "$2"
}

@test "complete: bash" {
	make_names
	# With and without completion of names of hosts, for which @ breaks a word.
	for breaks in $' \t\n"\'@><=;|&(:' $' \t\n"\'><=;|&(:'; do
		at=vm1@
		[[ $breaks != *@* ]] || at=@
		[ "$(bash_offers "$breaks" "revdedupctl snaps")" = "snapshot" ]
		[ "$(bash_offers "$breaks" "revdedupctl -p pool show vm")" = "vm1 vm1@" ]
		[ "$(bash_offers "$breaks" "revdedupctl show vm1@")" = "${at}latest ${at}3 ${at}2 ${at}gold ${at}1" ]
		[ "$(bash_offers "$breaks" "revdedupctl restore vm1@g")" = "${at}gold" ]
		[ "$(bash_offers "$breaks" "revdedupctl scrub --progress=al")" = "always" ]
		[ -z "$(bash_offers "$breaks" "revdedupctl restore vm1@1 --to ")" ]
	done
}

@test "complete: zsh" {
	make_names
	[ -n "$(type -P zsh)" ] || skip "no zsh"
	# What the script hands to zsh: the words, and texts behind colons.
	zsh_offers() {
		# shellcheck disable=SC2016 # for zsh
		PATH=$build/bin:$PATH zsh -f -c '
			_describe() { [[ $1 == -V ]] && shift 2; print -rl -- "${(@P)1}" "$@[2,-1]"; }
			_files() { print files; }
			compset() { :; }
			complete_it() { source $1/_revdedupctl; }
			script=$1
			shift
			words=("$@") CURRENT=$# PREFIX=${@[-1]}
			complete_it $script' zsh "$scripts" "$@"
	}
	[ "$(zsh_offers revdedupctl snaps)" = "snapshot:take a version of an attached volume, an image or a device" ]
	run zsh_offers revdedupctl show vm1@g
	[ "$output" = "vm1@gold:vm1@2" ]
	run zsh_offers revdedupctl restore v
	[ "${lines[*]}" = "vg/vm-2@ vm1@ -S" ] || { printf '%q\n' "${lines[@]}"; false; }
	[ "$(zsh_offers revdedupctl restore vm1@1 --to x)" = files ]
}

@test "complete: fish" {
	make_names
	[ -n "$(type -P fish)" ] || skip "no fish"
	fish_offers() {
		# shellcheck disable=SC2016 # for fish
		HOME=$PWD PATH=$build/bin:$PATH fish -N -c '
			source $argv[1]/revdedupctl.fish
			complete -C $argv[2]' "$scripts" "$1"
	}
	[ "$(fish_offers "revdedupctl snaps")" = $'snapshot\ttake a version of an attached volume, an image or a device' ]
	[ "$(fish_offers "revdedupctl show vm1@g")" = $'vm1@gold\tvm1@2' ]
	[ "$(fish_offers "revdedupctl list v" | paste -sd " ")" = "vg/vm-2 vm1" ]
	[ "$(fish_offers "revdedupctl restore vm1@1 --to 1.i")" = 1.img ]
	[ "$(fish_offers "revdedupctl restore vm1@1 --to=1.i")" = --to=1.img ]
	[ "$(fish_offers "revdedupctl scrub --progress al")" = always ]
}
