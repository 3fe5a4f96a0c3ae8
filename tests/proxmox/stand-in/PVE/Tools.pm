# SPDX-License-Identifier: GPL-2.0
#
# In the place of PVE::Tools of pve-common: all that the plugin for Proxmox VE uses of it. A command
# is a list of words: the shell's way to run one is left out on purpose.
package PVE::Tools;

use strict;
use warnings;

use IPC::Open3;
use IO::Select;
use Symbol qw(gensym);

use base 'Exporter';
our @EXPORT_OK = qw(run_command trim);

sub trim {
    my ($text) = @_;

    return $text =~ s/^\s+|\s+$//gr;
}

my sub run {
    my ($cmd, $param) = @_;

    my ($in, $out, $err) = (gensym(), gensym(), gensym());
    my $pid = open3($in, $out, $err, $cmd->@*);
    close($in);
    my %to = ($out => $param->{outfunc}, $err => $param->{errfunc});
    my %rest = ($out => '', $err => '');
    my $select = IO::Select->new($out, $err);
    while (my @ready = $select->can_read()) {
        for my $from (@ready) {
            my $end = !sysread($from, $rest{$from}, 65536, length($rest{$from}));
            $rest{$from} .= "\n" if $end && length($rest{$from});
            while ($rest{$from} =~ s/^([^\n]*)\n//) {
                my $line = $1;
                my $to = $to{$from} // sub { print {$from eq $err ? *STDERR : *STDOUT} "$_[0]\n" };
                $to->($line);
            }
            $select->remove($from) if $end;
        }
    }
    waitpid($pid, 0);
    return $?;
}

sub run_command {
    my ($cmd, %param) = @_;

    die "not a list\n" if ref($cmd) ne 'ARRAY' || grep { ref } $cmd->@*;
    my $code = -1;
    eval {
        my $status = run($cmd, \%param);
        die 'got signal ' . ($status & 127) . "\n" if $status & 127;
        $code = $status >> 8;
        die "exit code $code\n" if $code;
    };
    # With noerr a signal, and a handler that dies, are -1.
    die(($param{errmsg} // "command '@$cmd' failed") . ": $@") if $@ && !$param{noerr};
    return $code;
}

1;
