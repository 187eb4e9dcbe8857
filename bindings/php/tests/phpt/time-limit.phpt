--TEST--
a wait ends at max_execution_time, by PHP's own error, and leaves nothing; earlier waits count
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$other = holder($locks, 'report');
register_shutdown_function(function () use ($locks, $other) {
    echo error_get_last()['message'], "\n";
    var_dump(requests($locks));
    $other->go();
    echo $other->line(), "\n";
    var_dump($locks->exclusive('report', 60)->isHeld());
});
ini_set('display_errors', '0');
set_time_limit(2);
attempt(fn() => $locks->exclusive('report', 1.5));
$locks->exclusive('report', 1.5);
echo "not reached\n";
?>
--EXPECT--
Lockshm\TimeoutException: 'report': not granted in N s: held exclusive by pid N (php) for N s
Maximum execution time of 2 seconds exceeded
int(1)
{"held":true}
bool(true)
