# SPDX-License-Identifier: GPL-2.0
#
# In the place of PVE::Storage::Plugin of pve-storage, and of PVE::SectionConfig below it: what the
# plugin for Proxmox VE inherits or calls.
package PVE::Storage::Plugin;

use strict;
use warnings;

my %plugins;

# Those of the other types of storage.
my %properties = map { $_ => 1 } qw(
    vgname pool nodes disable content shared saferemove saferemove_throughput tagged_only bwlimit
);

sub register {
    my ($class) = @_;

    $plugins{ $class->type() } = $class;
}

sub lookup {
    my ($class, $type) = @_;

    return $plugins{$type} // die "unknown section type '$type'\n";
}

sub init {
    for my $plugin (values %plugins) {
        for my $name (keys $plugin->properties()->%*) {
            die "duplicate property '$name'\n" if $properties{$name}++;
        }
        for my $name (keys $plugin->options()->%*) {
            die "unknown property '$name'\n" if !$properties{$name};
        }
    }
}

sub check_config {
    my ($class, $storeid, $config, $create) = @_;

    my $options = $class->options();
    for my $name (keys %$config) {
        die "unexpected property '$name'\n" if !$options->{$name};
        die "can't change value of fixed parameter '$name'\n"
            if !$create && $options->{$name}->{fixed};
    }
    for my $name (keys %$options) {
        die "missing value for required option '$name'\n"
            if $create && !$options->{$name}->{optional} && !defined($config->{$name});
    }
    return { %$config, type => $class->type() };
}

sub parse_lvm_name {
    my ($name) = @_;

    die "lvm name '$name' contains illegal characters\n"
        if $name !~ m/^[a-z0-9][a-z0-9\-\_\.]*[a-z0-9]$/i;
    return $name;
}

sub parse_volume_id {
    my ($volid) = @_;

    return ($1, $2) if $volid =~ m/^([a-z][a-z0-9\-\_\.]*[a-z0-9]):(.+)$/i;
    die "unable to parse volume ID '$volid'\n";
}

sub get_next_vm_diskname {
    my ($disks, $storeid, $vmid) = @_;

    for my $i (0 .. 1023) {
        return "vm-$vmid-disk-$i" if !grep { m/(?:vm|base)-$vmid-disk-0*$i(?!\d)/ } @$disks;
    }
    die "unable to allocate an image name for VM $vmid in storage '$storeid'\n";
}

sub path {
    my ($class, $scfg, $volname, $storeid, $snapname) = @_;

    return $class->filesystem_path($scfg, $volname, $snapname);
}

sub activate_storage { }

sub volume_qemu_snapshot_method { return 'storage' }

1;
