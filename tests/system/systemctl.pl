#!/usr/bin/perl
# A stand-in for systemctl without systemd, for tests that follow the documentation. Starts the
# command of a Type=notify unit: reads EnvironmentFile= and ExecStart=, makes a socket for its
# messages, and returns when the daemon is ready. Stopping ends only the main process, as with
# KillMode=process. `status` shows the last STATUS=.
#
# STAND_IN_OPTIONS, if set, is added to the command: the devices of a test. The real systemctl runs
# `enable`, where it is installed (STAND_IN_SYSTEMCTL).
use strict;
use warnings;
use Socket;
use POSIX qw(WNOHANG setsid);

my $run = '/run/stand-in';
my $deadline_s = 60;
mkdir $run;

sub fail { print STDERR "systemctl: @_\n"; exit 1 }

# unit NAME: returns its lines as { key => [value...] }, and the file.
sub unit {
    my ($name) = @_;
    for my $folder ('/etc/systemd/system', '/usr/local/lib/systemd/system', '/usr/lib/systemd/system') {
        open my $file, '<', "$folder/$name.service" or next;
        my %keys = (file => ["$folder/$name.service"]);
        while (my $line = <$file>) { push @{ $keys{$1} }, $2 if $line =~ /^([A-Za-z]+)=(.*)$/ }
        return \%keys;
    }
    fail("Unit $name.service could not be found.");
}

sub slurp { open my $file, '<', $_[0] or return ''; local $/; return <$file> // '' }
sub write_file { open my $file, '>', "$_[0].new" or die; print $file $_[1]; close $file; rename "$_[0].new", $_[0] }
sub main_pid { my $pid = slurp("$run/$_[0].pid"); return $pid && kill(0, $pid) ? $pid : 0 }

# keep NAME SOCKET: the manager's own process: listens and records messages until the daemon has
# ended.
sub keep {
    my ($name, $socket, $pid) = @_;
    my ($state, $status, $message) = ('activating', '', '');
    until (waitpid($pid, WNOHANG)) {
        write_file("$run/$name.state", "$state\n$status\n");
        my $ready = '';
        vec($ready, fileno($socket), 1) = 1;
        next unless select($ready, undef, undef, 0.05) && defined recv($socket, $message, 4096, 0);
        for (split /\n/, $message) {
            $state = 'active' if $_ eq 'READY=1';
            $state = 'deactivating' if $_ eq 'STOPPING=1';
            $status = $1 if /^STATUS=(.*)/;
        }
    }
    write_file("$run/$name.state", ($state eq 'deactivating' ? 'inactive' : 'failed') . "\nexit status $?\n");
    exit 0;
}

sub start {
    my ($name) = @_;
    return if main_pid($name);
    my $unit = unit($name);
    "@{ $unit->{Type} // [] }" eq 'notify' or fail("$name: this stand-in knows Type=notify alone");
    for (@{ $unit->{StateDirectory} // [] }) { mkdir "/var/lib/$_", oct "@{ $unit->{StateDirectoryMode} // ['0755'] }" }
    for my $path (map { s/^-//r } @{ $unit->{EnvironmentFile} // [] }) {
        /^([A-Z_]+)=(.*)$/ and $ENV{$1} = $2 for split /\n/, slurp($path);
    }
    # A whole $VARIABLE is several words, as in systemd.
    my @command = map { /^\$([A-Z_]+)$/ ? split(' ', $ENV{$1} // '') : $_ } split ' ', "@{ $unit->{ExecStart} }";
    push @command, split ' ', $ENV{STAND_IN_OPTIONS} // '';
    unlink "$run/$name.notify", "$run/$name.state";
    socket(my $socket, PF_UNIX, SOCK_DGRAM, 0) or die "$!";
    bind($socket, pack_sockaddr_un("$run/$name.notify")) or die "$!";
    unless (fork // die) {
        setsid();
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$run/$name.log";
        open STDERR, '>&', \*STDOUT;
        my $pid = fork // die;
        unless ($pid) { chdir '/'; $ENV{NOTIFY_SOCKET} = "$run/$name.notify"; exec @command or exit 127 }
        write_file("$run/$name.pid", $pid);
        keep($name, $socket, $pid);
    }
    for (1 .. $deadline_s * 20) {
        my $state = slurp("$run/$name.state");
        return if $state =~ /^active$/m;
        last if $state =~ /^(failed|inactive)$/m;
        select undef, undef, undef, 0.05;
    }
    fail("$name did not become ready:\n" . slurp("$run/$name.log"));
}

sub stop {
    my ($name) = @_;
    my $pid = main_pid($name) or return;
    kill TERM => $pid;
    for (1 .. $deadline_s * 20) { return if slurp("$run/$name.state") =~ /^(inactive|failed)$/m; select undef, undef, undef, 0.05 }
    fail("$name does not stop");
}

sub status {
    my ($name) = @_;
    my ($state, $status) = split /\n/, slurp("$run/$name.state") || "inactive\n";
    print "$name.service\n  Loaded: ${ unit($name)->{file} }[0]\n  Active: $state\n  Status: \"", $status // '', "\"\n";
    print map { "$_\n" } grep { defined } (split /\n/, slurp("$run/$name.log"))[-5 .. -1];
    exit($state eq 'active' ? 0 : 3);
}

my ($verb, @names) = @ARGV;
my $now = grep { $_ eq '--now' } @names;
@names = map { s/\.service$//r } grep { !/^--/ } @names;
if ($verb eq 'daemon-reload') { exit 0 }
@names or fail("no unit is named");
if ($verb eq 'enable') {
    unit($_) for @names;
    my $real = $ENV{STAND_IN_SYSTEMCTL} // '';
    !$real or system($real, '--root=/', 'enable', @names) == 0 or fail("enable @names");
    if ($now) { start($_) for @names }
}
elsif ($verb eq 'link') { system($ENV{STAND_IN_SYSTEMCTL}, '--root=/', 'link', map { "$_.service" } @names) == 0 or fail("link @names") }
elsif ($verb eq 'start') { start($_) for @names }
elsif ($verb eq 'stop') { stop($_) for @names }
elsif ($verb eq 'restart') { stop($_), start($_) for @names }
elsif ($verb eq 'status') { status($names[0]) }
else { fail("this stand-in does not know $verb") }
