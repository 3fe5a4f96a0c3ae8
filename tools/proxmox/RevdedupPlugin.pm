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

# In seconds, how long each command waits for another one on the same volume or pool, such as a
# snapshot of revdedup-snapshot.timer. The guest may be paused meanwhile.
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
        [$revdedupctl, $command, '--json', '--lock-wait', $lock_wait, @args],
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
    # With noerr, run_command returns this instead of dying.
    die "'revdedupctl $command' was interrupted\n" if $status < 0;
    return ($status, $said);
}

# Return what the command said: what failed, and on a line of its own what to do.
my sub error_text {
    my ($error) = @_;

    return join("\n", grep { defined } $error->@{qw(error hint)}) . "\n";
}

my sub fail {
    my ($status, $said, $command) = @_;

    die "'revdedupctl $command' ended with exit status $status\n" if !$said->{error};
    die error_text($said->{error});
}

# Tell of an error that did not stop the command from doing what it was asked.
my sub complain {
    my ($status, $said) = @_;

    warn error_text($said->{error}) if $status && $said->{error};
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

my sub snapshot_device {
    my ($scfg, $name, $snap) = @_;

    return device_of($scfg, $name) . "\@$tag_prefix$snap";
}

# Remove the device of a snapshot. It fails if the device is in use.
my sub unmap_snapshot {
    my ($scfg, $name, $snap) = @_;

    my $path = snapshot_device($scfg, $name, $snap);
    tell($scfg, 'unmap', $path =~ s|^/dev/mapper/||r) if -b $path;
}

# Delete a snapshot that Proxmox VE does not know, if there is one.
my sub delete_unfinished {
    my ($scfg, $volume, $snap) = @_;

    my $version = find_snapshot($scfg, $volume, $snap) // return;
    tell($scfg, 'unprotect', $version->{version}) if $version->{protected};
    tell($scfg, 'delete', $version->{version});
}

# Turn snapshots of a disk that is gone into mere versions: prune deletes them by its rules.
my sub release_versions {
    my ($scfg, $name) = @_;

    for my $version (versions_of($scfg, "$scfg->{vgname}/$name")->@*) {
        my @snaps = snapshots_in($version) or next;
        unmap_snapshot($scfg, $name, $_) for @snaps;
        tell($scfg, 'unprotect', $version->{version});
        tell($scfg, 'tag', '--', $version->{version}, map { "-$tag_prefix$_" } @snaps);
    }
}

# --- attachments

# Return the status of a volume, or undef if it is not attached.
my sub status_of {
    my ($scfg, $volume) = @_;

    my ($status, $said) = ask($scfg, 'status', $volume);
    return $said->{status} if $said->{status};
    return undef if $said->{error} && $said->{error}->{missing};
    fail($status, $said, 'status');
}

# Die if a device of an attached volume is open. Nothing else than this count tells of a QEMU.
my sub check_unused {
    my ($status) = @_;

    my $open;
    run_command(
        ['/sbin/dmsetup', qw(info -c --noheadings -o open), $status->{device}],
        noerr => 1,
        outfunc => sub { ($open) = shift =~ m/^\s*(\d+)\s*$/ },
        errfunc => sub { },
    );
    # A volume that is down has no device.
    die "cannot find out whether '$status->{device}' is in use\n"
        if !defined($open) && ($status->{state} ne 'down' || -b $status->{device});
    die "'$status->{device}' is in use, and is not removed\n" if $open;
}

# Take the target off a volume that is to be removed.
my sub detach_unused {
    my ($scfg, $volume) = @_;

    my $status = status_of($scfg, $volume) // return;
    check_unused($status);
    # What only the pool has is lost with the volume, as it has to be. That --force does not detach
    # a device in use; it would without such blocks.
    my @force = $status->{blocks_away} ? ('--force') : ();
    my $detached = tell($scfg, 'detach', '--yes', @force, $volume)->{detach};
    return if !$detached || !$detached->{device_stays};
    # It was opened meanwhile.
    tell($scfg, 'attach', $volume);
    die "'$status->{device}' is in use, and is not removed\n";
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
        $path = snapshot_device($scfg, $name, $snapname);
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

    # This fails if there is a disk of that name, which keeps its snapshots then.
    $lvm->alloc_image($storeid, $scfg, $vmid, $fmt, $name, $size);
    return $name if $plain;

    my $volume = "$scfg->{vgname}/$name";
    eval {
        # Whoever has freed the last disk of that name may have been interrupted.
        release_versions($scfg, $name);
        tell($scfg, 'attach', $volume);
    };
    if (my $err = $@) {
        # An attach that was interrupted may have left its metadata.
        eval { ask($scfg, 'detach', '--yes', $volume) };
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
        # This also finds out whether the pool is there, before anything has changed.
        my $versions = versions_of($scfg, "$scfg->{vgname}/$name");
        unmap_snapshot($scfg, $name, $_) for map { snapshots_in($_) } @$versions;
        detach_unused($scfg, "$scfg->{vgname}/$name");
    }
    # With saferemove this is what zeroes the volume later: its name is free already.
    my $cleanup = $lvm->free_image($storeid, $scfg, $volname, $isBase, 'raw');
    if (!is_plain($name)) {
        # The disk is gone, whatever happens now; a new one of that name tries it again.
        eval { release_versions($scfg, $name) };
        warn $@ if $@;
    }
    return $cleanup;
}

sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;

    my $name = ($class->parse_volname($volname))[1];
    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    if (defined($snapname)) {
        my $version = get_snapshot($scfg, tracked($class, $scfg, $volname), $snapname);
        # Nothing tells of which version a device is that was left by another disk of that name.
        unmap_snapshot($scfg, $name, $snapname);
        tell($scfg, 'map', $version->{version}, $path =~ s|^/dev/mapper/||r);
        return;
    }
    $lvm->activate_volume($storeid, $scfg, $volname, undef, $cache)
        if is_plain($name) || !-b "/dev/$scfg->{vgname}/$name";
    return if is_plain($name);

    # A guest starts without the module, too: its disk is then there, and not tracked.
    my ($status, $said) = ask($scfg, 'attach', "$scfg->{vgname}/$name");
    my $attached = $said->{attach};
    fail($status, $said, 'attach') if !$attached;
    complain($status, $said);
    die "'$attached->{volume}' has the device '$attached->{device}', not '$path'\n"
        if $attached->{device} ne $path;
    warn "'$attached->{volume}' is not tracked: the next snapshot reads all of it\n"
        if !$attached->{tracked};
}

# A disk stays attached: to detach it is to lose the record of what has changed.
sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;

    my $name = ($class->parse_volname($volname))[1];
    if (defined($snapname)) {
        unmap_snapshot($scfg, $name, $snapname);
    } elsif (is_plain($name)) {
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
    my $old = find_snapshot($scfg, $volume, $snap);
    die "'$volume' has a snapshot '$snap' already\n" if $old && $old->{protected};
    # One that was interrupted before it was protected: Proxmox VE does not know it.
    delete_unfinished($scfg, $volume, $snap) if $old;
    $class->activate_volume($storeid, $scfg, $volname);
    eval {
        my ($status, $said) = ask($scfg, 'snapshot', '--tag', "$tag_prefix$snap", $volume);
        my $made = $said->{snapshot} or fail($status, $said, 'snapshot');
        # A hook that failed in the end: the version is there.
        complain($status, $said);
        my ($version) = $made->{version} =~ m/^(\S+\@\d+)$/;
        # No rule of prune is to take a snapshot from Proxmox VE, which would still list it.
        tell($scfg, 'protect', $version);
    };
    if (my $err = $@) {
        # One that was interrupted has not said whether there is a version.
        eval { delete_unfinished($scfg, $volume, $snap) };
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
    # A roll-back attaches a volume that is not.
    my $status = status_of($scfg, $volume) // return 1;
    my $away = $status->{blocks_away};
    die "the device of '$volume' is not tracked (state: $status->{state}), and cannot be rolled"
        . " back: 'revdedupctl attach $volume' brings it up, or says what is missing\n"
        if !defined($away);
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
    tell($scfg, 'rollback', '--yes', $version->{version});
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
    eval { tell($scfg, 'delete', $version->{version}) };
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
