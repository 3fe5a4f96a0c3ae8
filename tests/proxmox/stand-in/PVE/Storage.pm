# SPDX-License-Identifier: GPL-2.0
#
# In the place of PVE::Storage of pve-storage: what a guest's buttons call, with the arguments that
# it hands to a plugin.
package PVE::Storage;

use strict;
use warnings;

use PVE::Storage::Plugin;
use PVE::Storage::LVMPlugin;

use constant APIVER => 15;

PVE::Storage::Plugin->init();

# Return what a call of a method begins with: plugin, configuration, and names.
my sub of_volume {
    my ($cfg, $volid) = @_;

    my ($storeid, $volname) = PVE::Storage::Plugin::parse_volume_id($volid);
    my $scfg = $cfg->{ids}->{$storeid} // die "storage '$storeid' does not exist\n";
    return (PVE::Storage::Plugin->lookup($scfg->{type}), $scfg, $storeid, $volname);
}

for my $method (qw(
    volume_snapshot volume_snapshot_rollback volume_snapshot_delete volume_snapshot_info
    volume_rollback_is_possible volume_resize volume_size_info
)) {
    no strict 'refs';
    *{$method} = sub {
        my ($cfg, $volid, @args) = @_;

        my ($plugin, @names) = of_volume($cfg, $volid);
        $plugin->volume_rollback_is_possible(@names, @args)
            if $method eq 'volume_snapshot_rollback';
        return $plugin->$method(@names, @args);
    };
}

sub volume_has_feature {
    my ($cfg, $feature, $volid, $snapname, $running) = @_;

    my ($plugin, $scfg, @names) = of_volume($cfg, $volid);
    return $plugin->volume_has_feature($scfg, $feature, @names, $snapname, $running);
}

sub path {
    my ($cfg, $volid, $snapname) = @_;

    my ($plugin, $scfg, $storeid, $volname) = of_volume($cfg, $volid);
    return ($plugin->path($scfg, $volname, $storeid, $snapname))[0];
}

sub activate_volumes {
    my ($cfg, $volids, $snapname) = @_;

    for my $volid (@$volids) {
        my ($plugin, $scfg, $storeid, $volname) = of_volume($cfg, $volid);
        $plugin->activate_volume($storeid, $scfg, $volname, $snapname, {});
    }
}

sub deactivate_volumes {
    my ($cfg, $volids, $snapname) = @_;

    for my $volid (@$volids) {
        my ($plugin, $scfg, $storeid, $volname) = of_volume($cfg, $volid);
        $plugin->deactivate_volume($storeid, $scfg, $volname, $snapname, {});
    }
}

sub vdisk_alloc {
    my ($cfg, $storeid, $vmid, $fmt, $name, $size) = @_;

    my ($plugin, $scfg) = of_volume($cfg, "$storeid:-");
    return "$storeid:" . $plugin->alloc_image($storeid, $scfg, $vmid, $fmt, $name, $size);
}

sub vdisk_clone {
    my ($cfg, $volid, $vmid, $snap) = @_;

    my ($plugin, $scfg, $storeid, $volname) = of_volume($cfg, $volid);
    return "$storeid:" . $plugin->clone_image($scfg, $storeid, $volname, $vmid, $snap);
}

sub vdisk_free {
    my ($cfg, $volid) = @_;

    my ($plugin, $scfg, $storeid, $volname) = of_volume($cfg, $volid);
    $plugin->free_image($storeid, $scfg, $volname, ($plugin->parse_volname($volname))[5, 6]);
}

sub vdisk_list {
    my ($cfg, $storeid, $vmid) = @_;

    my ($plugin, $scfg) = of_volume($cfg, "$storeid:-");
    return { $storeid => $plugin->list_images($storeid, $scfg, $vmid) };
}

sub rename_volume {
    my ($cfg, $volid, $vmid) = @_;

    my ($plugin, @names) = of_volume($cfg, $volid);
    return $plugin->rename_volume(@names, $vmid);
}

1;
