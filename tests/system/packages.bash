# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what others here set or use
#
# For the tests of packages, which source it with their arguments, and set $build.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
cd "${BASH_SOURCE[0]%/*}/../.."

case ${1:-} in
-h | --help) show_help; exit ;;
?*) usage_error "'$1' is one argument too many" ;;
esac

# make_base DIRECTORY: put a Debian 12 there that has "${packages[@]}", as root.tar.
make_base() {
	note "making a Debian to install the packages on (some two minutes)"
	mmdebstrap --quiet --variant=apt --include="$(IFS=, && echo "${packages[*]}")" \
		--dpkgopt=path-exclude='/usr/share/doc/*' \
		--dpkgopt=path-exclude='/usr/share/locale/*' bookworm "$1/root.tar"
}

# ok WHAT COMMAND...
number=0
ok() {
	local what=$1
	shift
	number=$((number + 1))
	if "$@" >"$build/output" 2>&1; then
		echo "ok $number $what"
	else
		echo "not ok $number $what"
		sed 's/^/# /' "$build/output"
		exit 1
	fi
}

# fails COMMAND...
fails() { ! "$@"; }

# loads_in_guest DIRECTORY: a guest of its kernel loads the module that lies there.
loads_in_guest() {
	# shellcheck disable=SC2016 # for the guest
	scripts/vm-run.sh --kernel 6.12 --timeout 300 --payload "$1:module" -- \
		bash -ec 'modprobe -a dm-mod $(modinfo -F depends module/dm-revdedup.ko | tr , " ")
			insmod module/dm-revdedup.ko
			dmsetup targets | grep "^revdedup "'
}
