<?php
// SPDX-License-Identifier: MIT
// Prints the microseconds that one lock takes in a request of a new php-fpm worker, for perf/first-use:
//
//     php first-request.php renewed|strict|flock NUMBER      in its request NUMBER
//
// Environment: PHP_FPM, EXTENSION; SEGMENT, which is there already.

declare(strict_types=1);

require __DIR__.'/Fcgi.php';
[, $lock, $number] = $argv;
$work = sys_get_temp_dir().'/first-request-'.getmypid();
mkdir($work);
file_put_contents("$work/page.php", '<?php
$start = hrtime(true);
if ("flock" === $_GET["lock"]) {
    $file = fopen(__DIR__."/flock", "c");
    flock($file, LOCK_EX);
} else {
    $hold = Lockshm\Locks::open(getenv("SEGMENT"))->exclusive("first", lease: "strict" === $_GET["lock"] ? null : 30.0);
}
printf("%.1f", (hrtime(true) - $start) / 1e3);
');
$root = 0 === posix_geteuid();
file_put_contents("$work/fpm.conf", "[global]\nerror_log = $work/log\ndaemonize = no\n[first]\n".($root ? "user = root\n" : '')
    ."listen = $work/fpm\npm = static\npm.max_children = 1\nclear_env = no\n");
$command = [getenv('PHP_FPM'), '-n', '-F', '-y', "$work/fpm.conf", '-d', 'extension='.getenv('EXTENSION'), ...($root ? ['-R'] : [])];
$fpm = proc_open($command, [['file', '/dev/null', 'r'], ['file', "$work/log", 'a'], ['file', "$work/log", 'a']], $pipes);
register_shutdown_function(static function () use ($fpm, $work): void {
    proc_terminate($fpm);
    proc_close($fpm);
    array_map('unlink', glob("$work/*"));
    rmdir($work);
});
for ($until = hrtime(true) + 60_000_000_000; !@stream_socket_client("unix://$work/fpm"); usleep(1000)) {
    if (hrtime(true) > $until || !proc_get_status($fpm)['running']) {
        fwrite(STDERR, file_get_contents("$work/log"));
        exit(1);
    }
}
for ($i = 0; $i < (int) $number; ++$i) {
    $request = Fcgi::request("$work/fpm", [
        'SCRIPT_FILENAME' => "$work/page.php", 'REQUEST_METHOD' => 'GET', 'QUERY_STRING' => "lock=$lock",
    ]);
    while (!$request->receive()) {
        $streams = [$request->connection];
        $none = null;
        stream_select($streams, $none, $none, 60);
    }
}
if (!is_numeric($request->body())) {
    fwrite(STDERR, $request->body()."\n");
    exit(1);
}
echo $request->body(), "\n";
