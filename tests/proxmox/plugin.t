#!/usr/bin/perl -T
# SPDX-License-Identifier: GPL-2.0
#
# Usage: perl -T -I STORAGE... -I tools/proxmox -I tests/proxmox plugin.t REVDEDUPCTL
#
# Test the plugin for Proxmox VE without a kernel module: STORAGE has PVE::Storage, of this folder
# (stand-in) or of Proxmox VE (upstream.sh). LVM, and commands of revdedupctl on attached volumes, are played here:
# a volume is an image in the current directory. REVDEDUPCTL does all that is about the pool. Taint
# mode is what Proxmox VE runs plugins in.
use strict;
use warnings;

use Cwd;
use JSON;
use List::Util qw(any);
use Test::More;

my ($program) = shift(@ARGV) =~ m/^(.+)$/;
my ($dir) = getcwd() =~ m/^(.+)$/;
$ENV{PATH} = '/usr/sbin:/usr/bin:/sbin:/bin';
delete @ENV{qw(IFS CDPATH ENV BASH_ENV REVDEDUP_POOL)};
$ENV{REVDEDUP_CONFIG} = "$dir/etc";

# --- LVM, and the commands on attached volumes

my (%lvs, %attached);
my @ran;        # what was run since log_begin()
my %broken;     # commands of revdedupctl that fail, and what they say
my $interrupted;    # a snapshot is, when its version is there

my sub image { return "$dir/$_[0].img" }

my sub write_image {
    my ($name, $text, $size) = @_;

    open(my $file, '>', image($name)) or die "$name: $!";
    print $file $text;
    truncate($file, $size) or die "$name: $!";
}

my sub read_image {
    my ($name) = @_;

    open(my $file, '<', image($name)) or die "$name: $!";
    read($file, my $text, 4);
    return $text;
}

my sub option { my ($name, @words) = @_; return (grep { $words[$_] eq $name } 0 .. $#words)[0] + 1 }

my sub device { return '/dev/mapper/revdedup-vg-' . ($_[0] =~ s/-/--/gr) }

my sub report_lvs {
    my ($param, @words) = @_;

    my @columns = split(',', $words[option('--options', @words)]);
    for my $name (sort keys %lvs) {
        next if $words[-1] =~ m|/| && $words[-1] ne "/dev/vg/$name";
        my %has = (
            vg_name => 'vg', lv_name => $name, lv_size => $lvs{$name}->{size},
            lv_attr => '-wi-a-----', tags => join(',', $lvs{$name}->{tags}->@*), time => 0,
        );
        $param->{outfunc}->('  ' . join(':', map { $has{$_} // '' } @columns));
    }
}

my %lvm = (
    lvs => \&report_lvs,
    vgs => sub { $_[0]->{outfunc}->('  vg:1073741824:536870912:3') },
    lvcreate => sub {
        my ($param, @words) = @_;

        my $name = $words[option('--name', @words)];
        die "Logical Volume \"$name\" already exists in volume group \"vg\"\n" if $lvs{$name};
        my ($kib) = $words[option('--size', @words)] =~ m/^(\d+)k$/;
        my $tag = $words[option('--addtag', @words)];
        $lvs{$name} = { size => $kib * 1024, tags => [$tag] };
        write_image($name, 'new', $kib * 1024);
    },
    dmsetup => sub {
        my ($param, @words) = @_;

        my ($name) = grep { device($_) eq $words[-1] } keys %attached;
        $param->{outfunc}->($attached{$name}->{open} // 0);
    },
    lvremove => sub { delete $lvs{ $_[-1] =~ s|^vg/||r } // die "no such volume\n" },
    lvextend => sub {
        my ($param, @words) = @_;

        my ($name) = $words[-1] =~ m|^/dev/vg/(.+)$|;
        # Proxmox VE 8 has another unit.
        my ($count, $unit) = $words[option('-L', @words)] =~ m/^(\d+)([kM])$/;
        $lvs{$name}->{size} = $count << ($unit eq 'k' ? 10 : 20);
    },
    lvchange => sub {
        my ($param, @words) = @_;

        my $name = $words[-1] =~ s|^(?:/dev/)?vg/||r;
        die "no such volume '$name'\n" if !$lvs{$name};
        push $lvs{$name}->{tags}->@*, $words[option('--addtag', @words)]
            if any { $_ eq '--addtag' } @words;
    },
);

my $real;

my sub error_of {
    my ($param, $error, %more) = @_;

    $param->{errfunc}->("revdedupctl: $error");
    $param->{outfunc}->(encode_json({ type => 'error', error => $error, hint => undef, %more }));
    return $more{exit};
}

my sub away { return $attached{ $_[0] }->{away} // 0 }

my %played = (
    attach => sub {
        my ($param, $volume) = @_;

        my ($name) = $volume =~ m|^vg/(.+)$|;
        die "no such volume '$name'\n" if !$lvs{$name};
        $lvs{"${name}_rdmeta"} = { size => 4 << 20, tags => [] } if !$attached{$name};
        $attached{$name} //= { tracked => 1 };
        my $tracked = $attached{$name}->{tracked} ? JSON::true : JSON::false;
        $param->{outfunc}->(encode_json({
            type => 'attach', volume => $volume, device => device($name), tracked => $tracked,
        }));
        return $attached{$name}->{tracked} ? 0 : 13;
    },
    detach => sub {
        my ($param, @words) = @_;

        my ($name) = $words[-1] =~ m|^vg/(.+)$|;
        return error_of($param, "blocks of '$words[-1]' lie in the pool", exit => 11)
            if away($name) && !any { $_ eq '--force' } @words;
        my $stays = $attached{$name}->{stays} ? JSON::true : JSON::false;
        delete $attached{$name};
        delete $lvs{"${name}_rdmeta"};
        $param->{outfunc}->(
            encode_json({ type => 'detach', volume => $words[-1], device_stays => $stays }));
        return 0;
    },
    status => sub {
        my ($param, $volume) = @_;

        my ($name) = $volume =~ m|^vg/(.+)$|;
        return error_of($param, "'$volume' is not attached", exit => 1, missing => JSON::true)
            if !$attached{$name};
        my $is_up = $attached{$name}->{tracked};
        $param->{outfunc}->(encode_json({
            type => 'status', device => device($name), state => $is_up ? 'tracked' : 'linear',
            $is_up ? (blocks_away => away($name)) : (),
        }));
        return 0;
    },
    map => sub { return 0 },
    snapshot => sub {
        my ($param, @words) = @_;

        my ($name) = $words[-1] =~ m|^vg/(.+)$|;
        my $status = $real->(
            [$program, 'snapshot', '--json', @words, '--from', image($name)], %$param);
        die "interrupted by signal\n" if $interrupted;
        return error_of($param, $broken{hook}, exit => 3) if $broken{hook};
        return $status;
    },
    rollback => sub {
        my ($param, @words) = @_;

        my ($name) = $words[-1] =~ m|^vg/(.+)\@\d+$|;
        $attached{$name}->{away} = 7;
        return $real->(
            [$program, qw(restore --json --yes), $words[-1], '--to', image($name)],
            %$param,
        );
    },
    clone => sub {
        my ($param, $version, $volume) = @_;

        my ($name) = $volume =~ m|^vg/(.+)$|;
        $lvs{$name} = { size => 8 << 20, tags => [] };
        $attached{$name} = { tracked => 1, away => 9 };
        return 0;
    },
);

my sub run_fake {
    my ($cmd, %param) = @_;

    my ($command, @words) = $cmd->@*;
    $command =~ s|^.*/||;
    $param{$_} //= sub { } for qw(outfunc errfunc);
    if ($command eq 'revdedupctl') {
        my ($verb, $json, $wait, $seconds, @more) = @words;
        push @ran, join(' ', $verb, @more);
        die "$verb: not for a program\n" if $json ne '--json';
        die "$verb: does not wait\n" if $wait ne '--lock-wait' || $seconds ne '60';
        die "$verb: of what pool?\n" if $ENV{REVDEDUP_POOL} ne "$dir/pool";
        return error_of(\%param, $broken{$verb}, exit => 1) if $broken{$verb};
        return $played{$verb}->(\%param, @more) if $played{$verb};
        return $real->([$program, @words], %param);
    }
    push @ran, join(' ', $command, @words) if $command !~ m/^(?:lvs|vgs|dmsetup)$/;
    die "no such command: $command\n" if !$lvm{$command};
    $lvm{$command}->(\%param, @words);
    return 0;
}

# As the real one, it does not die with noerr, even of a signal.
my sub fake {
    my ($cmd, %param) = @_;

    die "not a list: $cmd\n" if ref($cmd) ne 'ARRAY';
    my $status = eval { run_fake($cmd, %param) };
    die $@ if $@ && !$param{noerr};
    return $status // -1;
}

# The plugins import it when they are loaded.
BEGIN {
    require PVE::Tools;
    no warnings 'redefine';
    my $run = \&PVE::Tools::run_command;
    *PVE::Tools::run_command = sub { return fake(@_) };
    $real = sub { return $run->(@_) };
}
require Load;

my $class = 'PVE::Storage::Custom::RevdedupPlugin';

# --- helpers

my $config = { vgname => 'vg', pool => "$dir/pool" };
my $cfg = { ids => { fast => { %$config, type => 'revdedup', content => { images => 1 } } } };

# Return what was run since the last call, without what only looks.
my sub commands { return [grep { !m/^(?:list|status|tune) / } splice(@ran)] }

my sub versions {
    my ($volume) = @_;

    my @found;
    $real->(
        [$program, qw(list --json -p), "$dir/pool", $volume],
        outfunc => sub {
            my $version = decode_json(shift);
            push @found, $version if $version->{type} eq 'version';
        },
        errfunc => sub { },
        noerr => 1,
    );
    return @found;
}

my sub ctl { $real->([$program, shift, '--quiet', '-p', "$dir/pool", @_]) }

my sub fails {
    my ($text, $code, $name) = @_;

    eval { $code->() };
    like($@, $text, $name);
    return $@;
}

# --- tests

$real->([$program, qw(init --quiet --compression none --size 1G), "$dir/pool"]);

subtest 'configuration' => sub {
    is($class->type(), 'revdedup', 'type');
    is($class->api(), PVE::Storage::APIVER(), 'this version is tested, so there is no warning');
    my $checked = $class->check_config('fast', {%$config}, 1);
    is($checked->{pool}, "$dir/pool", 'pool');
    fails(qr/shared/, sub { $class->check_config('fast', { %$config, shared => 1 }, 1) },
        'a group of several hosts is refused');
    fails(qr/'pool' is not the absolute path/,
        sub { $class->check_config('fast', { %$config, pool => 'pool' }, 1) }, 'a relative pool');
    fails(qr/fixed parameter 'pool'/,
        sub { $class->check_config('fast', { pool => "$dir/other" }, 0) }, 'the pool stays');
    fails(qr/required option 'pool'/, sub { $class->check_config('fast', { vgname => 'vg' }, 1) },
        'the pool is needed');
    # Before Proxmox VE 9 it is not asked.
    is($class->volume_qemu_snapshot_method('fast', $config, 'vm-100-disk-0'), 'storage',
        'QEMU takes no part in snapshots')
        if $class->can('volume_qemu_snapshot_method');
};

subtest 'names' => sub {
    my %path = (
        'vm-100-disk-0' => '/dev/mapper/revdedup-vg-vm--100--disk--0',
        'vm-100-state-a' => '/dev/vg/vm-100-state-a',
        'vm-100-cloudinit' => '/dev/vg/vm-100-cloudinit',
        'vm-100-fleece-0' => '/dev/vg/vm-100-fleece-0',
    );
    is(scalar(PVE::Storage::path($cfg, "fast:$_")), $path{$_}, $_) for sort keys %path;
    is(scalar(PVE::Storage::path($cfg, 'fast:vm-100-disk-0', 'one')),
        '/dev/mapper/revdedup-vg-vm--100--disk--0@pve-one', 'a snapshot');
    fails(qr/plain logical volume/,
        sub { PVE::Storage::path($cfg, 'fast:vm-100-cloudinit', 'one') }, 'no snapshot of that');
    fails(qr/volume chain/, sub { $class->parse_volname('vm-100-disk-0.qcow2') }, 'qcow2');
    for my $suffix (qw(rdmeta rdcow rdmcow)) {
        fails(qr/belongs to another volume/,
            sub { $class->parse_volname("vm-100-disk-0_$suffix") }, $suffix);
    }
};

my $disk;
subtest 'a new disk is attached' => sub {
    commands();
    $disk = PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', undef, 8192);
    is($disk, 'fast:vm-100-disk-0', 'name');
    like(join("\n", commands()->@*), qr/^lvcreate .*\nattach vg\/vm-100-disk-0$/, 'commands');
    my $images = PVE::Storage::vdisk_list($cfg, 'fast', 100)->{fast};
    is_deeply([map { $_->{volid} } @$images], [$disk], 'its metadata is no disk');
    is(scalar(PVE::Storage::volume_size_info($cfg, $disk)), 8 << 20, 'size');
    $broken{attach} = 'no room for metadata';
    fails(qr/^no room for metadata$/m,
        sub { PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', undef, 4096) },
        'what cannot be attached');
    %broken = ();
    ok(!$lvs{'vm-100-disk-1'}, '... is not there');
    is_deeply([grep { m/^(?:detach|lvremove)/ } commands()->@*],
        ['detach --yes vg/vm-100-disk-1', 'lvremove -f vg/vm-100-disk-1'], '... nor its metadata');
    fails(qr/unsupported format/,
        sub { PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'qcow2', undef, 4096) }, 'qcow2');
    commands();
    my $state = PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', 'vm-100-state-a', 4096);
    PVE::Storage::activate_volumes($cfg, [$state]);
    PVE::Storage::vdisk_free($cfg, $state);
    ok(!(grep { m/^(?:attach|detach)/ } commands()->@*), 'memory is not attached');
};

subtest 'a guest starts and stops' => sub {
    commands();
    PVE::Storage::activate_volumes($cfg, [$disk]);
    is(commands()->[-1], 'attach vg/vm-100-disk-0', 'start');
    PVE::Storage::deactivate_volumes($cfg, [$disk]);
    is_deeply(commands(), [], 'it stays attached: the record of changes is needed');
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    $attached{'vm-100-disk-0'}->{tracked} = 0;
    PVE::Storage::activate_volumes($cfg, [$disk]);
    like("@warnings", qr/is not tracked/, 'without the module it starts, with a warning');
    $attached{'vm-100-disk-0'}->{tracked} = 1;
};

subtest 'snapshots' => sub {
    write_image('vm-100-disk-0', 'one', 8 << 20);
    commands();
    PVE::Storage::volume_snapshot($cfg, $disk, 'one');
    like(join("\n", commands()->@*),
        qr|snapshot --tag pve-one vg/vm-100-disk-0\nprotect vg/vm-100-disk-0\@1$|,
        'commands');
    write_image('vm-100-disk-0', 'two', 8 << 20);
    PVE::Storage::volume_snapshot($cfg, $disk, 'two_2-x');
    my ($one, $two) = versions('vg/vm-100-disk-0');
    ok($one->{protected} && $two->{protected}, 'prune keeps them');
    is_deeply($two->{tags}, ['pve-two_2-x'], 'tag');
    is_deeply(
        PVE::Storage::volume_snapshot_info($cfg, $disk),
        {
            one =>
                { id => $one->{uid}, timestamp => $one->{time}, 'virtual-size' => 8 << 20 },
            'two_2-x' =>
                { id => $two->{uid}, timestamp => $two->{time}, 'virtual-size' => 8 << 20 },
        },
        'info',
    );
    fails(qr/has a snapshot 'one' already/,
        sub { PVE::Storage::volume_snapshot($cfg, $disk, 'one') }, 'no tag moves');
    # By hand, or by the timer.
    ctl('snapshot', 'vg/vm-100-disk-0', '--from', image('vm-100-disk-0'), '--tag', 'mine');
    is(scalar(keys PVE::Storage::volume_snapshot_info($cfg, $disk)->%*), 2,
        'other versions are no snapshots');
    $broken{snapshot} = "no space: it's full";
    is(fails(qr/full/, sub { PVE::Storage::volume_snapshot($cfg, $disk, 'three') }, 'full'),
        "no space: it's full\n", 'an error is passed on as it is');
    %broken = (protect => 'interrupted');
    fails(qr/^interrupted$/, sub { PVE::Storage::volume_snapshot($cfg, $disk, 'three') },
        'cannot be protected');
    %broken = ();
    is(scalar(versions('vg/vm-100-disk-0')), 3, '... does not stay');
    $interrupted = 1;
    fails(qr/was interrupted$/, sub { PVE::Storage::volume_snapshot($cfg, $disk, 'three') },
        'interrupted');
    is(scalar(versions('vg/vm-100-disk-0')), 3, '... does not stay');
    $broken{delete} = 'locked';
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    fails(qr/was interrupted$/, sub { PVE::Storage::volume_snapshot($cfg, $disk, 'three') },
        'interrupted twice');
    is("@warnings", "locked\n", '... the second error is told');
    is(scalar(versions('vg/vm-100-disk-0')), 4, '... stays');
    $interrupted = 0;
    %broken = (hook => 'hook failed');
    @warnings = ();
    PVE::Storage::volume_snapshot($cfg, $disk, 'three');
    is("@warnings", "hook failed\n", 'an error after the version was made is told');
    %broken = ();
    is(scalar(versions('vg/vm-100-disk-0')), 4, 'what an interrupted one has left is replaced');
    fails(qr/already exists/,
        sub { PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', 'vm-100-disk-0', 4096) },
        'a disk that exists is not made again');
    ok(PVE::Storage::volume_snapshot_info($cfg, $disk)->{one}, '... and keeps its snapshots');
    ok((versions('vg/vm-100-disk-0'))[0]->{protected}, '... protected');
    PVE::Storage::volume_snapshot_delete($cfg, $disk, 'three');
};

subtest 'roll-back' => sub {
    is(PVE::Storage::volume_rollback_is_possible($cfg, $disk, 'one'), 1, 'not only to the last');
    fails(qr/has no snapshot 'none'/,
        sub { PVE::Storage::volume_snapshot_rollback($cfg, $disk, 'none') }, 'to what is not there');
    fails(qr/has no snapshot 'mine'/,
        sub { PVE::Storage::volume_snapshot_rollback($cfg, $disk, 'mine') }, 'to a tag of others');
    commands();
    PVE::Storage::volume_snapshot_rollback($cfg, $disk, 'one');
    is(commands()->[-1], 'rollback --yes vg/vm-100-disk-0@1', 'command');
    is(read_image('vm-100-disk-0'), "one\0", 'content');
    ok(PVE::Storage::volume_snapshot_info($cfg, $disk)->{'two_2-x'}, 'newer ones stay');
    fails(qr/has 7 blocks in the pool, and cannot be rolled back/,
        sub { PVE::Storage::volume_rollback_is_possible($cfg, $disk, 'one') },
        'not before all is copied back');
    $attached{'vm-100-disk-0'}->{away} = 0;
    $broken{status} = 'cannot read the attachments';
    fails(qr/^cannot read the attachments$/,
        sub { PVE::Storage::volume_rollback_is_possible($cfg, $disk, 'one') }, 'nor if unknown');
    %broken = ();
    $attached{'vm-100-disk-0'}->{tracked} = 0;
    fails(qr/is not tracked \(state: linear\), and cannot be rolled back/,
        sub { PVE::Storage::volume_rollback_is_possible($cfg, $disk, 'one') },
        'nor without the module');
    $attached{'vm-100-disk-0'}->{tracked} = 1;
};

subtest 'a snapshot is read and cloned' => sub {
    commands();
    PVE::Storage::activate_volumes($cfg, [$disk], 'one');
    is(commands()->[-1],
        'map vg/vm-100-disk-0@1 revdedup-vg-vm--100--disk--0@pve-one', 'the device that path names');
    my $clone = PVE::Storage::vdisk_clone($cfg, $disk, 101, 'two_2-x');
    is($clone, 'fast:vm-101-disk-0', 'name');
    is_deeply(
        commands(),
        [
            'clone vg/vm-100-disk-0@2 vg/vm-101-disk-0',
            'lvchange --addtag pve-vm-101 --setautoactivation n vg/vm-101-disk-0',
        ],
        'commands',
    );
    fails(qr/only a snapshot/, sub { PVE::Storage::vdisk_clone($cfg, $disk, 101) }, 'no linked one');
    commands();
    PVE::Storage::vdisk_free($cfg, $clone);
    is_deeply([grep { !m/^lvchange/ } commands()->@*],
        ['detach --yes --force vg/vm-101-disk-0', 'lvremove -f vg/vm-101-disk-0'],
        'a clone may go before it is copied');
};

subtest 'features' => sub {
    my @has;
    for my $feature (qw(snapshot clone copy rename template sparseinit replicate)) {
        push @has, $feature if PVE::Storage::volume_has_feature($cfg, $feature, $disk);
        push @has, "$feature of one"
            if PVE::Storage::volume_has_feature($cfg, $feature, $disk, 'one');
    }
    is_deeply(\@has, ['snapshot', 'clone of one', 'copy', 'copy of one'], 'of a disk');
    my $cloudinit = 'fast:vm-100-cloudinit';
    ok(!PVE::Storage::volume_has_feature($cfg, 'snapshot', $cloudinit), 'of others');
    ok(PVE::Storage::volume_has_feature($cfg, 'copy', $cloudinit, 'one'), 'as a clone asks');
    fails(qr/cannot rename/, sub { PVE::Storage::rename_volume($cfg, $disk, 102) }, 'renaming');
};

subtest 'a larger disk' => sub {
    commands();
    PVE::Storage::volume_resize($cfg, $disk, 16 << 20, 1);
    like(join("\n", commands()->@*), qr|^lvextend .*attach vg/vm-100-disk-0$|s,
        'the volume first, then its device');
    is(scalar(PVE::Storage::volume_size_info($cfg, $disk)), 16 << 20, 'size');
};

subtest 'snapshots are deleted' => sub {
    commands();
    PVE::Storage::volume_snapshot_delete($cfg, $disk, 'one', 1);
    is_deeply(commands(),
        ['unprotect vg/vm-100-disk-0@1', 'delete vg/vm-100-disk-0@1'], 'commands');
    is_deeply([map { $_->{number} } versions('vg/vm-100-disk-0')], [2, 3], 'it alone is gone');
    $broken{delete} = 'locked';
    fails(qr/^locked$/, sub { PVE::Storage::volume_snapshot_delete($cfg, $disk, 'two_2-x') },
        'it fails');
    %broken = ();
    ok((versions('vg/vm-100-disk-0'))[0]->{protected}, '... and is a snapshot as before');
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    PVE::Storage::volume_snapshot_delete($cfg, $disk, 'one');
    like("@warnings", qr/nothing to delete/, 'what is gone already');
};

subtest 'a disk goes, its versions stay' => sub {
    my $other = "$dir/elsewhere";
    rename("$dir/pool", $other) or die "rename: $!";
    commands();
    fails(qr/is not a pool/, sub { PVE::Storage::vdisk_free($cfg, $disk) }, 'no pool');
    rename($other, "$dir/pool") or die "rename: $!";
    is_deeply(commands(), [], '... nothing is changed');
    $attached{'vm-100-disk-0'}->{open} = 1;
    fails(qr/is in use, and is not removed/, sub { PVE::Storage::vdisk_free($cfg, $disk) },
        'a disk in use');
    is_deeply(commands(), [], '... nothing is changed');
    $attached{'vm-100-disk-0'} = { tracked => 1, stays => 1 };
    fails(qr/is in use, and is not removed/, sub { PVE::Storage::vdisk_free($cfg, $disk) },
        'a disk that is opened meanwhile');
    is_deeply(commands(), ['detach --yes vg/vm-100-disk-0', 'attach vg/vm-100-disk-0'],
        '... is attached again');
    my $lvremove = $lvm{lvremove};
    $lvm{lvremove} = sub { die "cannot remove it\n" };
    fails(qr/cannot remove it/, sub { PVE::Storage::vdisk_free($cfg, $disk) }, 'LVM fails');
    $lvm{lvremove} = $lvremove;
    ok(PVE::Storage::volume_snapshot_info($cfg, $disk)->{'two_2-x'}, '... the snapshots stay');
    PVE::Storage::activate_volumes($cfg, [$disk]);
    PVE::Storage::vdisk_free($cfg, $disk);
    # With --force a device in use would not be refused.
    ok((any { $_ eq 'detach --yes vg/vm-100-disk-0' } commands()->@*), 'it is detached');
    ok(!$lvs{'vm-100-disk-0'} && !$lvs{'vm-100-disk-0_rdmeta'}, 'gone');
    my ($two, $mine) = versions('vg/vm-100-disk-0');
    is_deeply([$two->{tags}, $mine->{tags}], [[], ['mine']], 'they are no snapshots any more');
    ok(!$two->{protected}, 'the rules of prune count');
    # A new one does not get the name, and so not the versions.
    my $new = PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', undef, 4096);
    is($new, 'fast:vm-100-disk-1', 'another name');
    is_deeply(PVE::Storage::volume_snapshot_info($cfg, $new), {}, 'no snapshots');
    # Nor one that is given the name, if the old one was not removed to the end.
    ctl('tag', 'vg/vm-100-disk-0@2', '+pve-two');
    my $named = PVE::Storage::vdisk_alloc($cfg, 'fast', 100, 'raw', 'vm-100-disk-0', 4096);
    is_deeply(PVE::Storage::volume_snapshot_info($cfg, $named), {}, 'none of another disk');
    PVE::Storage::vdisk_free($cfg, $_) for $new, $named;
    is(scalar(versions('vg/vm-100-disk-0')), 2, 'no version was deleted');
};

done_testing();
