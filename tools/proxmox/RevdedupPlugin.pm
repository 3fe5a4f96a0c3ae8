# SPDX-License-Identifier: GPL-2.0
#
# The storage type "revdedup" of Proxmox VE: thick LVM, with the disks of guests attached and their
# snapshots as versions in a pool. See Documentation/proxmox.rst.
#
# What happens to logical volumes is left to LVMPlugin, which is called by its name, as to it a path
# is that of the logical volume. To all others a path is that of the device above. What happens to
# versions is left to revdedupctl, which is crash-safe by itself; nothing is kept here.
package PVE::Storage::Custom::RevdedupPlugin;

use strict;
use warnings;

use JSON;

use PVE::Tools qw(run_command);
use PVE::Storage::Plugin;
use PVE::Storage::LVMPlugin;

use base qw(PVE::Storage::LVMPlugin);

our $revdedupctl = '/usr/sbin/revdedupctl';

my $lvm = 'PVE::Storage::LVMPlugin';

# Snapshots have a prefix, as tags of the administrator are in the same space.
my $tag_prefix = 'pve-';

# In seconds, for a snapshot of revdedup-snapshot.timer of the same volume. The guest may be paused
# meanwhile.
my $lock_wait = 60;

# --- revdedupctl

# Print what a command says of its progress at each tenth.
my sub print_progress {
    my ($progress, $last) = @_;

    return $last if !$progress->{total};
    my $percent = int(100 * $progress->{done} / $progress->{total});
    return $last if $percent < $last + 10;
    print "$progress->{what}: $percent%\n";
    return $percent;
}

# Run a command, and return its exit status and its objects by type, the last one of each; those of
# type "version" are a list. Warnings go to the log of the task.
my sub ask {
    my ($scfg, $command, @args) = @_;

    my $said = { version => [], lines => [] };
    my $percent = 0;
    # Not each command has an option for it.
    local $ENV{REVDEDUP_POOL} = $scfg->{pool};
    my $status = run_command(
        [$revdedupctl, $command, '--json', @args],
        noerr => 1,
        outfunc => sub {
            my $object = decode_json(shift);
            if ($object->{type} eq 'version') {
                push $said->{version}->@*, $object;
            } elsif ($object->{type} eq 'progress') {
                $percent = print_progress($object, $percent);
            } else {
                $said->{ $object->{type} } = $object;
            }
        },
        errfunc => sub { push $said->{lines}->@*, shift },
    );
    my $error = $said->{error} // {};
    for my $line ($said->{lines}->@*) {
        my $text = $line =~ s/^revdedupctl: //r;
        print STDERR "$line\n" if !grep { defined($_) && $_ eq $text } $error->@{qw(error hint)};
    }
    return ($status, $said);
}

# Die with what the command said: what failed, and on a line of its own what to do.
my sub fail {
    my ($status, $said, $command) = @_;

    my $error = $said->{error};
    die "'revdedupctl $command' ended with exit status $status\n" if !$error;
    die join("\n", grep { defined } $error->@{qw(error hint)}) . "\n";
}

# The same as ask(), for a command that has to succeed.
my sub tell {
    my ($scfg, $command, @args) = @_;

    my ($status, $said) = ask($scfg, $command, @args);
    fail($status, $said, $command) if $status;
    return $said;
}

# --- names

# The volumes that guests have no snapshots of: memory of a snapshot, the disk of cloud-init, and
# what a backup puts aside. They are logical volumes without a device above.
my sub is_plain {
    my ($name) = @_;

    return $name =~ m/^vm-\d+-(?:state-|cloudinit|fleece-)/;
}

my sub device_of {
    my ($scfg, $name) = @_;

    return '/dev/mapper/revdedup-' . join('-', map { s/-/--/gr } $scfg->{vgname}, $name);
}

# Return the name of the volume in the pool.
my sub tracked {
    my ($class, $scfg, $volname) = @_;

    my $name = ($class->parse_volname($volname))[1];
    die "'$volname' is a plain logical volume, and has no versions\n" if is_plain($name);
    return "$scfg->{vgname}/$name";
}

# Return what follows the prefix of each tag of Proxmox VE.
my sub snapshots_in {
    my ($version) = @_;

    return map { m/^\Q$tag_prefix\E(.+)$/ ? $1 : () } $version->{tags}->@*;
}

# Return the versions of a volume, none if the pool does not know it.
my sub versions_of {
    my ($scfg, $volume) = @_;

    my ($status, $said) = ask($scfg, 'list', $volume);
    return [] if $status && $said->{error} && $said->{error}->{missing};
    fail($status, $said, 'list') if $status;
    # What a program prints is tainted, and a name goes to the next one.
    for my $version ($said->{version}->@*) {
        ($version->{version}) = $version->{version} =~ m/^(\S+\@\d+)$/;
    }
    return $said->{version};
}

# Return the version that is a snapshot, or undef.
my sub find_snapshot {
    my ($scfg, $volume, $snap) = @_;

    for my $version (versions_of($scfg, $volume)->@*) {
        return $version if grep { $_ eq $snap } snapshots_in($version);
    }
    return undef;
}

my sub get_snapshot {
    my ($scfg, $volume, $snap) = @_;

    return find_snapshot($scfg, $volume, $snap)
        // die "'$volume' has no snapshot '$snap' in the pool '$scfg->{pool}'\n";
}

# Turn snapshots of a disk that is gone into mere versions: prune deletes them by its rules.
my sub release_versions {
    my ($scfg, $volume) = @_;

    for my $version (versions_of($scfg, $volume)->@*) {
        my @snaps = snapshots_in($version) or next;
        tell($scfg, 'unprotect', $version->{version});
        tell($scfg, 'tag', '--', $version->{version}, map { "-$tag_prefix$_" } @snaps);
    }
}

# --- what Proxmox VE asks of a plugin

# It warns of any version but its own, and refuses a newer one. 11 is that of Proxmox VE 8.
sub api {
    my $tested = 15;
    my $theirs = PVE::Storage::APIVER();

    return $theirs < 11 ? 11 : $theirs < $tested ? $theirs : $tested;
}

sub type {
    return 'revdedup';
}

sub plugindata {
    return {
        content => [{ images => 1 }, { images => 1 }],
        format => [{ raw => 1 }, 'raw'],
        'sensitive-properties' => {},
    };
}

# "pool" and all others are properties of other types already.
sub properties {
    return {};
}

# Without "shared": an attachment, and a pool, belong to one host.
sub options {
    return {
        vgname => { fixed => 1 },
        pool => { fixed => 1 },
        nodes => { optional => 1 },
        disable => { optional => 1 },
        content => { optional => 1 },
        saferemove => { optional => 1 },
        saferemove_throughput => { optional => 1 },
        tagged_only => { optional => 1 },
        bwlimit => { optional => 1 },
    };
}

sub check_config {
    my ($class, $storeid, $config, $create, @more) = @_;

    my $settings = $class->SUPER::check_config($storeid, $config, $create, @more);
    die "pool: '$settings->{pool}' is not the absolute path of a directory\n"
        if defined($settings->{pool}) && $settings->{pool} !~ m|^/|;
    return $settings;
}

sub parse_volname {
    my ($class, $volname) = @_;

    my @parsed = $class->SUPER::parse_volname($volname);
    die "'$volname' belongs to another volume, which revdedup has attached\n"
        if $volname =~ m/_rd(?:meta|cow|mcow)$/;
    die "'$volname' is not raw: a volume chain is for a storage of the type 'lvm'\n"
        if $volname =~ m/\.qcow2$/;
    return @parsed;
}

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;

    my ($vtype, $name, $vmid) = $class->parse_volname($volname);
    my $path = "/dev/$scfg->{vgname}/$name";
    if (defined($snapname)) {
        tracked($class, $scfg, $volname);
        $path = device_of($scfg, $name) . "\@$tag_prefix$snapname";
    } elsif (!is_plain($name)) {
        $path = device_of($scfg, $name);
    }
    return wantarray ? ($path, $vmid, $vtype) : $path;
}

sub list_images {
    my ($class, @args) = @_;

    my $images = $lvm->list_images(@args);
    return [
        grep {
            my $volname = (PVE::Storage::Plugin::parse_volume_id($_->{volid}))[1];
            eval { $class->parse_volname($volname) };
        } @$images
    ];
}

# Pass by names of which the pool has versions: they are of another disk, which is gone.
sub find_free_diskname {
    my ($class, $storeid, $scfg, $vmid, $fmt, $add_fmt_suffix) = @_;

    my $vg = $scfg->{vgname};
    my @taken = keys PVE::Storage::LVMPlugin::lvm_list_volumes($vg)->{$vg}->%*;
    while (1) {
        my $name =
            PVE::Storage::Plugin::get_next_vm_diskname(\@taken, $storeid, $vmid, undef, $scfg, 0);
        return $name if !versions_of($scfg, "$vg/$name")->@*;
        push @taken, $name;
    }
}

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name, $size) = @_;

    die "unsupported format '$fmt'\n" if $fmt ne 'raw';
    $name ||= $class->find_free_diskname($storeid, $scfg, $vmid, $fmt);
    die "illegal name '$name' - should be 'vm-$vmid-*'\n" if $name !~ m/^vm-\Q$vmid\E-/;
    my $plain = is_plain(($class->parse_volname($name))[1]);

    # Whoever has freed the last disk of that name may have been interrupted.
    release_versions($scfg, "$scfg->{vgname}/$name") if !$plain;
    $lvm->alloc_image($storeid, $scfg, $vmid, $fmt, $name, $size);
    return $name if $plain;

    eval { tell($scfg, 'attach', "$scfg->{vgname}/$name") };
    if (my $err = $@) {
        # Nothing was written to it, so there is nothing to zero.
        eval { $lvm->free_image($storeid, { %$scfg, saferemove => 0 }, $name, 0, $fmt) };
        warn $@ if $@;
        die $err;
    }
    return $name;
}

sub clone_image {
    my ($class, $scfg, $storeid, $volname, $vmid, $snap) = @_;

    die "only a snapshot can be cloned, and '$volname' names none\n" if !defined($snap);
    my $version = get_snapshot($scfg, tracked($class, $scfg, $volname), $snap);
    my $name = $class->find_free_diskname($storeid, $scfg, $vmid, 'raw');
    my $vg = $scfg->{vgname};
    tell($scfg, 'clone', $version->{version}, "$vg/$name");
    # As LVMPlugin makes them.
    eval {
        run_command(
            ['/sbin/lvchange', '--addtag', "pve-vm-$vmid", '--setautoactivation', 'n', "$vg/$name"]
        );
    };
    warn $@ if $@;
    return $name;
}

# Remove the volume, and no version: prune does that, by the rules of the administrator.
sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;

    my $name = ($class->parse_volname($volname))[1];
    if (!is_plain($name)) {
        my $volume = "$scfg->{vgname}/$name";

        # This also finds out whether the pool is there, before anything has changed.
        $class->deactivate_volume($storeid, $scfg, $volname, $_)
            for map { snapshots_in($_) } versions_of($scfg, $volume)->@*;
        my (undef, $said) = ask($scfg, 'status', $volume);
        if (my $status = $said->{status}) {
            # What only the pool has is lost with the volume, as it has to be. That --force does
            # not detach a device in use; it would without such blocks.
            my @force = $status->{blocks_away} ? ('--force') : ();
            tell($scfg, 'detach', '--yes', @force, $volume);
        } elsif (!$said->{error} || !$said->{error}->{missing}) {
            fail(1, $said, 'status');
        }
        release_versions($scfg, $volume);
    }
    return $lvm->free_image($storeid, $scfg, $volname, $isBase, 'raw');
}

sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;

    my $name = ($class->parse_volname($volname))[1];
    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    if (defined($snapname)) {
        my $version = get_snapshot($scfg, tracked($class, $scfg, $volname), $snapname);
        tell($scfg, 'map', $version->{version}, $path =~ s|^/dev/mapper/||r) if !-b $path;
        return;
    }
    $lvm->activate_volume($storeid, $scfg, $volname, undef, $cache)
        if is_plain($name) || !-b "/dev/$scfg->{vgname}/$name";
    return if is_plain($name);

    # A guest starts without the module, too: its disk is then there, and not tracked.
    my ($status, $said) = ask($scfg, 'attach', "$scfg->{vgname}/$name");
    my $attached = $said->{attach};
    fail($status, $said, 'attach') if !$attached;
    die "'$attached->{volume}' has the device '$attached->{device}', not '$path'\n"
        if $attached->{device} ne $path;
    warn "'$attached->{volume}' is not tracked: the next snapshot reads all of it\n"
        if !$attached->{tracked};
}

# A disk stays attached: to detach it is to lose the record of what has changed.
sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;

    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    if (defined($snapname)) {
        tell($scfg, 'unmap', $path =~ s|^/dev/mapper/||r) if -b $path;
    } elsif (is_plain(($class->parse_volname($volname))[1])) {
        $lvm->deactivate_volume($storeid, $scfg, $volname, undef, $cache);
    }
}

sub volume_size_info {
    my ($class, @args) = @_;

    return $lvm->volume_size_info(@args);
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;

    die "a snapshot keeps its size\n" if defined($snapname);
    $lvm->volume_resize($scfg, $storeid, $volname, $size, $running);
    # The device follows.
    $class->activate_volume($storeid, $scfg, $volname);
    return 1;
}

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;

    my $volume = tracked($class, $scfg, $volname);
    # revdedupctl would move the tag here.
    die "'$volume' has a snapshot '$snap' already\n" if find_snapshot($scfg, $volume, $snap);
    $class->activate_volume($storeid, $scfg, $volname);
    my ($status, $said) =
        ask($scfg, 'snapshot', '--tag', "$tag_prefix$snap", '--lock-wait', $lock_wait, $volume);
    # A hook that failed in the end is told, and the version is there.
    my $made = $said->{snapshot} or fail($status, $said, 'snapshot');
    my ($version) = $made->{version} =~ m/^(\S+\@\d+)$/;
    # No rule of prune is to take a snapshot from Proxmox VE, which would still list it.
    eval { tell($scfg, 'protect', $version) };
    if (my $err = $@) {
        eval { tell($scfg, 'delete', $version) };
        warn $@ if $@;
        die $err;
    }
    return undef;
}

# Each snapshot, and none is lost, so there are no blockers.
sub volume_rollback_is_possible {
    my ($class, $scfg, $storeid, $volname, $snap, $blockers) = @_;

    my $volume = tracked($class, $scfg, $volname);
    get_snapshot($scfg, $volume, $snap);
    my (undef, $said) = ask($scfg, 'status', $volume);
    my $away = ($said->{status} // {})->{blocks_away};
    die "'$volume' has $away blocks in the pool, and cannot be rolled back before they are copied"
        . " back, which goes on in the background: 'revdedupctl status' shows how many are left\n"
        if $away;
    return 1;
}

# The present content is kept as a version without a tag.
sub volume_snapshot_rollback {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;

    my $version = get_snapshot($scfg, tracked($class, $scfg, $volname), $snap);
    $class->activate_volume($storeid, $scfg, $volname);
    tell($scfg, 'rollback', '--yes', '--lock-wait', $lock_wait, $version->{version});
    return undef;
}

sub volume_snapshot_delete {
    my ($class, $scfg, $storeid, $volname, $snap, $running) = @_;

    my $version = find_snapshot($scfg, tracked($class, $scfg, $volname), $snap);
    if (!$version) {
        warn "'$volname' has no snapshot '$snap' in the pool: nothing to delete\n";
        return undef;
    }
    $class->deactivate_volume($storeid, $scfg, $volname, $snap);
    tell($scfg, 'unprotect', $version->{version});
    eval { tell($scfg, 'delete', '--lock-wait', $lock_wait, $version->{version}) };
    if (my $err = $@) {
        eval { tell($scfg, 'protect', $version->{version}) };
        warn $@ if $@;
        die $err;
    }
    return undef;
}

sub volume_snapshot_info {
    my ($class, $scfg, $storeid, $volname) = @_;

    my $info = {};
    return $info if is_plain(($class->parse_volname($volname))[1]);
    for my $version (versions_of($scfg, tracked($class, $scfg, $volname))->@*) {
        for my $snap (snapshots_in($version)) {
            $info->{$snap} = {
                id => $version->{uid},
                timestamp => $version->{time},
                'virtual-size' => $version->{size},
            };
        }
    }
    return $info;
}

sub volume_has_feature {
    my ($class, $scfg, $feature, $storeid, $volname, $snapname, $running) = @_;

    my $features = {
        copy => { current => 1, snap => 1 },
        snapshot => { current => 1 },
        clone => { snap => 1 },
    };
    # A clone of a snapshot asks this of the disk of cloud-init as well, and then makes it anew.
    my $name = ($class->parse_volname($volname))[1];
    return undef if $feature ne 'copy' && is_plain($name);

    return $features->{$feature}->{ defined($snapname) ? 'snap' : 'current' };
}

# A volume has its versions, and its attachment, under its name.
sub rename_volume {
    my ($class, $scfg, $storeid, $source_volname) = @_;

    die "cannot rename '$source_volname': its versions have its name; move the disk by a copy\n";
}

sub rename_snapshot {
    my ($class) = @_;

    die "renaming a snapshot is not supported for $class\n";
}

1;
