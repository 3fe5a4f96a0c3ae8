#!/usr/bin/perl -T
# SPDX-License-Identifier: GPL-2.0
#
# Usage: perl -T -I LIB call.pl FUNCTION [ARG...]
#
# Call PVE::Storage::FUNCTION for a storage "fast" in the group rdt-vg with the pool in REVDEDUP_POOL,
# and print what it returns, as JSON. An argument is a word, or JSON if it begins with '[', or 'undef'.
use strict;
use warnings;

use JSON;

# As the daemons of Proxmox VE.
$ENV{PATH} = '/revdedup/ctl:/usr/sbin:/usr/bin:/sbin:/bin';
delete @ENV{qw(IFS CDPATH ENV BASH_ENV)};
require Load;
require RevdedupPlugin;
{
    no warnings 'once';
    $PVE::Storage::Custom::RevdedupPlugin::revdedupctl = '/revdedup/ctl/revdedupctl';
}

# What LVM says is not the result.
open(my $out, '>&', \*STDOUT) or die "stdout: $!";
open(STDOUT, '>&', \*STDERR) or die "stdout: $!";

my ($pool) = $ENV{REVDEDUP_POOL} =~ m/^(.+)$/;
my ($function, @args) = map { m/^(.*)$/s } @ARGV;
@args = map { m/^\[/ ? decode_json($_) : $_ eq 'undef' ? undef : $_ } @args;
my $cfg = {
    ids => {
        fast => {
            type => 'revdedup', vgname => 'rdt-vg', pool => $pool, content => { images => 1 },
        },
    },
};
my $result = PVE::Storage->can($function)->($cfg, @args);
print $out JSON->new->canonical->allow_nonref->encode($result), "\n" if defined($result);
