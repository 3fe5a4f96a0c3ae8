# SPDX-License-Identifier: GPL-2.0
#
# In the place of PVE::Storage::LVMPlugin of pve-storage: what the plugin for Proxmox VE calls, with
# the same commands of LVM.
package PVE::Storage::LVMPlugin;

use strict;
use warnings;

use PVE::Tools qw(run_command trim);
use PVE::Storage::Plugin;

use base qw(PVE::Storage::Plugin);

my @lvs = qw(/sbin/lvs --separator : --noheadings --units b --unbuffered --nosuffix);

sub lvm_list_volumes {
    my ($vg) = @_;

    my $lvs = {};
    run_command(
        [@lvs, '--options', 'vg_name,lv_name,lv_size,lv_attr,tags', $vg ? ($vg) : ()],
        outfunc => sub {
            my ($vg_name, $name, $size, $attr, $tags) = split(':', trim(shift));
            my $lv = { lv_size => int($size), lv_type => substr($attr, 0, 1) };
            $lv->{tags} = $tags if $tags;
            $lvs->{$vg_name}->{$name} = $lv;
        },
    );
    return $lvs;
}

sub parse_volname {
    my ($class, $volname) = @_;

    PVE::Storage::Plugin::parse_lvm_name($volname);
    die "unable to parse lvm volume name '$volname'\n" if $volname !~ m/^(vm-(\d+)-\S+)$/;
    my ($name, $vmid) = ($1, $2);
    return ('images', $name, $vmid, undef, undef, undef,
        $volname =~ m/\.qcow2$/ ? 'qcow2' : 'raw');
}

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;

    die "snapshot is working with qcow2 format only" if defined($snapname);
    return "/dev/$scfg->{vgname}/" . ($class->parse_volname($volname))[1];
}

sub list_images {
    my ($class, $storeid, $scfg, $vmid, $vollist) = @_;

    my $lvs = lvm_list_volumes()->{ $scfg->{vgname} };
    my $res = [];
    for my $name (keys %$lvs) {
        my $lv = $lvs->{$name};
        next if $name !~ m/^vm-(\d+)-/;
        my $owner = $1;
        next if $lv->{lv_type} !~ m/^[-mMrR]$/;
        next if defined($vmid) && $vmid ne $owner;
        next if $vollist && !grep { $_ eq "$storeid:$name" } @$vollist;
        next if $scfg->{tagged_only} && ($lv->{tags} // '') !~ /(^|,)pve-vm-\d+(,|$)/;
        push @$res, { volid => "$storeid:$name", vmid => $owner, size => $lv->{lv_size} };
    }
    return $res;
}

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name, $size) = @_;

    run_command([
        '/sbin/lvcreate', '-aly', '-Wy', '--yes', '--size', "${size}k", '--name', $name,
        '--setautoactivation', 'n', '--addtag', "pve-vm-$vmid", $scfg->{vgname},
    ]);
    return $name;
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;

    run_command(['/sbin/lvremove', '-f', "$scfg->{vgname}/$volname"]);
    return undef;
}

sub activate_volume {
    my ($class, $storeid, $scfg, $volname) = @_;

    my $path = $class->path($scfg, $volname, $storeid);
    run_command(['/sbin/lvchange', '-aey', $path]);
    run_command(['/sbin/lvchange', '--refresh', $path]);
}

sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname) = @_;

    my $path = $class->path($scfg, $volname, $storeid);
    run_command(['/sbin/lvchange', '-aln', $path]) if -b $path;
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size) = @_;

    my $path = $class->path($scfg, $volname, $storeid);
    run_command(['/sbin/lvextend', '-L', $size / 1024 . 'k', $path]);
    return 1;
}

sub volume_size_info {
    my ($class, $scfg, $storeid, $volname) = @_;

    my $size;
    run_command(
        [@lvs, '--options', 'lv_size', $class->filesystem_path($scfg, $volname)],
        outfunc => sub { $size = int(shift) },
    );
    return wantarray ? ($size, 'raw', 0, undef) : $size;
}

1;
