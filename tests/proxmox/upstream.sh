#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: upstream.sh [--guest] STORAGE COMMON
#
# Test the plugin for Proxmox VE within Proxmox VE's own PVE::Storage: STORAGE is a checkout of its
# repository pve-storage, COMMON one of pve-common that is as new. Packages of Perl that these need
# are installed. What needs a node of Proxmox VE, or a library that a guest of the tests lacks, is
# replaced, by modules that are all but empty.
#
#   --guest   then run tests/guest/host/proxmox.bats within it, too, with volumes in use
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/lib.sh"
cd "${BASH_SOURCE[0]%/*}/../.."

guest=false
case ${1:-} in
-h | --help) show_help; exit ;;
--guest) guest=true; shift ;;
esac
[ $# -eq 2 ] || usage_error "two directories are needed"
storage=$1 common=$2
for file in "$storage/src/PVE/Storage/LVMPlugin.pm" "$common/src/PVE/SectionConfig.pm"; do
	[ -e "$file" ] || die "no such file: '$file'"
done
scripts/setup.sh test proxmox

out=$PWD/build/proxmox
rm -rf "$out"
mkdir -p "$out/none/PVE/APIClient" "$out/none/XML/LibXML" "$out/run"
for module in PVE/{APIClient/LWP,DataCenterConfig,RADOS,RPCEnvironment,SSHInfo,Systemd} \
	XML/LibXML{,/XPathContext}; do
	echo "package ${module//\//::}; 1;" >"$out/none/$module.pm"
done
cat >"$out/none/PVE/Cluster.pm" <<'END'
package PVE::Cluster;
use base 'Exporter';
our @EXPORT_OK = qw(cfs_register_file cfs_read_file cfs_write_file cfs_lock_file);
sub cfs_register_file { }
sub cfs_read_file { die "there is no cluster here\n" }
*cfs_write_file = *cfs_lock_file = \&cfs_read_file;
1;
END
dirs=("$out/none" "$(realpath "$storage")/src" "$(realpath "$common")/src")

make -s -C userspace
tree=$PWD
(cd "$out/run" && perl -T "${dirs[@]/#/-I}" "-I$tree/tools/proxmox" "-I$tree/tests/proxmox" \
	"$tree/tests/proxmox/plugin.t" "$tree/build/bin/revdedupctl")

if $guest; then
	PROXMOX_STORAGE="${dirs[*]}" scripts/check.sh soak proxmox-6.12
fi
