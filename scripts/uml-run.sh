#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: uml-run.sh [OPTION]... -- COMMAND [ARG]...
#
# Boot the debug kernel (uml-build.sh) as a guest, run COMMAND in its directory
# /rdd as root, print what it prints, and exit with its exit code. What the
# guest sees is what it sees under vm-run.sh. Options:
#
#   --payload SRC[:PATH]    put the file or directory SRC at /rdd/PATH
#   --disk FILE             a raw disk; the guest sees /dev/disk/disk0, disk1, ...
#   --power-cut             COMMAND ends by asking for a power cut (power_cut in
#                           tests/guest/lib.bash)
#   --cut-after SEC         cut the power SEC seconds after COMMAND has started
#   --mem MIB               memory of the guest (default 1024)
#   --append WORDS          for the kernel command line
#   --timeout SEC           kill the guest after this time (default 600)
#   --console FILE          keep the console's log there
#   --verbose               say how long the boot took
#
# There is one CPU, and no disk that loses what was not flushed: for these two
# there is vm-run.sh.
#
# Exit code: 0 also after a power cut that was asked for; 124 when the time is
# over, 125 when the guest ended without a verdict (a panic, for one), else that
# of COMMAND.
# The verdict comes on a line of its own to a pipe of its own, and begins with a
# random word, so nothing that the guest prints, and no hang or panic, can pass
# for it.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
scripts=${BASH_SOURCE[0]%/*}

mem=1024 timeout=600 append='' console=''
power_cut=false cut_after='' verbose=false
payloads=() disks=()

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) show_help; exit ;;
	--power-cut) power_cut=true; shift; continue ;;
	--verbose) verbose=true; shift; continue ;;
	--) shift; break ;;
	esac
	[ $# -ge 2 ] || usage_error "'$1' is no option, or lacks its value"
	case $1 in
	--payload) payloads+=("$2") ;;
	--disk) disks+=("$2") ;;
	--cut-after) cut_after=$2 ;;
	--mem) mem=$2 ;;
	--append) append=$2 ;;
	--timeout) timeout=$2 ;;
	--console) console=$2 ;;
	*) usage_error "no such option: '$1'" ;;
	esac
	shift 2
done
[ $# -gt 0 ] || usage_error "what shall the guest run?"

kernel_dir=$("$scripts/uml-build.sh")
rootfs=$("$scripts/rootfs.sh")
initramfs=$("$scripts/vm-initramfs.sh")

dir=$(mktemp -d "${TMPDIR:-/tmp}/rdd-uml.XXXXXX")
console=$(realpath -m "${console:-$dir/console}")
uml_pid=''

# The guest leads a session, in which each of its processes is a process too.
# They must all be killed at once: one that outlived the kernel would do its
# next system call on the host. (The session is not there before UML's main().)
cut_power() {
	[ -z "$uml_pid" ] || kill -KILL -- "-$uml_pid" 2>/dev/null ||
		kill -KILL "$uml_pid" 2>/dev/null || :
	uml_pid=''
}

clean_up() {
	cut_power
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

fail() {
	local code=$1
	shift
	note "$@"
	if [ -s "$console" ]; then
		note "the console's last lines:"
		tail -n 40 "$console" >&2
	fi
	exit "$code"
}

# The payload is a tar file, with the command as a script in it. (Its output goes
# to a terminal, which must not add carriage returns.)
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
	printf 'cd /rdd\nstty -onlcr <&1\nexec' >"$root/command"
	printf ' %q' "$@" >>"$root/command"
	tar -c -C "$root" --owner=0 --group=0 -f "$dir/payload.tar" .
}

# Where the guest's memory can be: a file that can be executed from, and that is
# written back to no disk if that can be had. It takes only what the guest uses.
memory_dir() {
	local try
	for try in /dev/shm "${TMPDIR:-/tmp}"; do
		[ -w "$try" ] || continue
		[[ ,$(findmnt -n -o OPTIONS --target "$try"), != *,noexec,* ]] || continue
		[ "$(df --output=avail -B 1M "$try" | tail -n 1)" -gt "$mem" ] || continue
		echo "$try"
		return
	done
	die "no directory can hold the guest's memory ($mem MiB, and not mounted noexec): set TMPDIR"
}

# add_disk LETTER FLAGS NAME FILE: the name is also the serial number. UML splits
# its command line at blanks and colons, so it gets no path, but a link. Flag r
# is for read-only, c for no lock: with UML's lock on it, QEMU opens no image.
add_disk() {
	ln -s "$(realpath "$4")" "$dir/$3"
	cmdline+=("ubd$1$2=$3,,$3")
}

now_ms() {
	local us=${EPOCHREALTIME/[.,]/}
	echo $((us / 1000))
}

# ms SEC: a number of seconds, which may have a fraction, in milliseconds.
ms() { printf '%.0f' "${1}e3"; }

run_uml() {
	cd "$dir"
	ulimit -c 0
	TMPDIR=$memory exec setpriv --pdeathsig KILL "$kernel_dir/linux" \
		"${cmdline[@]}" </dev/null 2>>"$console"
}

pack_payload "$@"
memory=$(memory_dir)
: >"$console"
ln -s "$initramfs" "$dir/initramfs"
read -r token </proc/sys/kernel/random/uuid
mkfifo "$dir/out"
cat "$dir/out" &
cat_pid=$!
# Holds the pipe open until UML is gone, even if it never comes.
exec {out}>"$dir/out"

cmdline=("mem=${mem}M" "uml_dir=$dir/" umid=uml "hostfs=$dir" initrd=initramfs
	quiet loglevel=5 panic=-1 oops=panic kasan_multi_shot stderr=1 "con0=null,fd:2"
	"ssl0=null,fd:1" "ssl1=null,fd:$out")
add_disk a rc rootfs "$rootfs"
add_disk b rc modules "$kernel_dir/modules.ext4"
add_disk c rc payload "$dir/payload.tar"
[ "${#disks[@]}" -le 13 ] || usage_error "more than 13 disks"
letters=defghijklmnop
for nr in "${!disks[@]}"; do
	[ -e "${disks[nr]}" ] || die "no such disk: '${disks[nr]}'"
	add_disk "${letters:nr:1}" '' "disk$nr" "${disks[nr]}"
done
cmdline+=(rdd.root=/dev/ubda rdd.modules=/dev/ubdb rdd.payload=/dev/ubdc
	rdd.control=/dev/ttyS0 rdd.out=/dev/ttyS1 "rdd.token=$token" "$append")

# UML's standard output is the control line, and all processes of the guest
# have it open, so its end is their end.
begin=$(now_ms)
end=$((begin + $(ms "$timeout")))
exec {control}< <(run_uml)
uml_pid=$!

verdict='' cut_at='' ended=false
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
		! $verbose || note "the command starts after $(($(now_ms) - begin)) ms"
		[ -z "$cut_after" ] || cut_at=$(($(now_ms) + $(ms "$cut_after")))
		;;
	"$token cut")
		$power_cut || fail 1 "the guest asked for a power cut: is --power-cut missing?"
		cut_at=$(now_ms)
		;;
	"$token exit "*)
		verdict=${line##* }
		# What remains is to sync the disks.
		cut_at='' end=$(($(now_ms) + 60000))
		;;
	esac
	# Without a line, read ends with over 128 by the clock, with 1 by UML.
	[ "$r" -ne 1 ] || ended=true
done

# Three ways out of the loop: UML ended, the power goes, or the time is over.
if $ended; then
	uml_pid=''
else
	cut_power
fi
exec {control}<&- {out}>&-
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
	fail "$verdict" "the command failed ($verdict)"
elif $power_cut || [ -n "$cut_after" ]; then
	fail 1 "the command ended before the power was cut"
fi
