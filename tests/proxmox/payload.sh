#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: payload.sh OUT [STORAGE...]
#
# Make the directory OUT for a guest: call.pl, and in lib the plugin, PVE::Storage, and all modules
# of Perl that these load and that the guest has not. STORAGE are the directories in which Perl
# finds PVE::Storage, by default the stand-in beside this script.
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
here=$(realpath "${BASH_SOURCE[0]%/*}")

case ${1:-} in
-h | --help) show_help; exit ;;
'') usage_error "no directory given" ;;
esac
out=$1
shift
[ $# -gt 0 ] || set -- "$here/stand-in"

rm -rf "$out"
mkdir -p "$out/lib"
cp "$here/call.pl" "$out"
# shellcheck disable=SC2016 # the variables are Perl's
perl "${@/#/-I}" "-I$here" "-I$here/../../tools/proxmox" -MJSON -MLoad -e '
	my %from = %INC;
	for my $module (map { s/\.pm$//r } keys %INC) {
		$from{s|^.*/(?=auto/)||r} = $_ for map { glob("$_/auto/$module/*.*") } @INC;
	}
	for my $name (sort keys %from) {
		# The guest has those that depend on the processor.
		next if !$from{$name} || $from{$name} =~ m{^/usr/lib/[^/]+/perl(?:-base)?/};
		print "$name\t$from{$name}\n";
	}' | while IFS=$'\t' read -r name from; do
	install -D -m 644 "$from" "$out/lib/$name"
done
