--TEST--
in the child of a fork no call uses, renews or ends a hold of the parent, and each says whose it is
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
use Lockshm\Hold;
$locks = segment();
$hold = $locks->exclusive('report', lease: 60);
$shared = $locks->shared('prices', lease: 60);
$lasting = $locks->exclusive('lasting', lease: 60, outlive: true);
$strict = $locks->exclusive('strict', lease: null, outlive: true);
$ends = $hold->remaining();

$in_child = function ($socket) use ($locks, $hold, $shared, $lasting, $strict) {
    ob_start();
    foreach ([
        'check' => fn() => $hold->check(),
        'renew' => fn() => $hold->renew(3600),
        'renew to none' => fn() => $hold->renew(INF),
        'extend' => fn() => $hold->extend(3600),
        'downgrade' => fn() => $hold->downgrade(),
        'upgrade' => fn() => $shared->upgrade(),
        'remaining' => fn() => $hold->remaining(),
        'previous' => fn() => $hold->damage(),
        'acknowledge' => fn() => $hold->acknowledge(),
        'release' => fn() => $hold->release(),
        'release with a cooldown' => fn() => $hold->release(60),
        'release again' => fn() => $hold->release(),
    ] as $what => $call) {
        echo "$what: ";
        attempt($call);
    }
    var_dump($hold->isHeld(), $shared->isHeld(), $hold->isExclusive(), $shared->isExclusive());
    attempt(fn() => $locks->tryExclusive('report'));
    attempt(fn() => $locks->once('report', 60, fn() => 1));
    attempt(fn() => $locks->exclusive('report', 0.01));
    foreach ([&$hold, &$shared, &$lasting, &$strict] as &$each) {
        $each = null;
    }
    echo 'of the parent: ';
    foreach (['report', 'prices', 'lasting', 'strict'] as $key) {
        echo $locks->holders($key)[0]->state, ' ', $locks->holders($key)[0]->pid === posix_getppid() ? 'by it' : 'by another', ';';
    }
    fwrite($socket, ob_get_clean() . "\n-\n");
};
$child = new Child($in_child);
while (($line = $child->line()) !== '-') {
    echo $line, "\n";
}
var_dump($child->wait(), $hold->check(), $shared->check(), $lasting->check(), $strict->check(), $hold->remaining() <= $ends);

echo "-- a callable that forks\n";
try {
    $locks->once('nightly', 60, function () use ($locks) {
        if (!$pid = pcntl_fork()) {
            throw new Exception('of the child'); // the call ends here in the child, with an end of the hold
        }
        pcntl_waitpid($pid, $status);
        echo 'inside: ', $locks->holders('nightly')[0]->state, "\n";
    }, retryOnFailure: true);
} catch (Exception) {
    posix_kill(getmypid(), SIGKILL);
}
echo 'afterwards: ', $locks->holders('nightly')[0]->state, "\n";
?>
--EXPECT--
check: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
renew: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
renew to none: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
extend: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
downgrade: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
upgrade: Lockshm\NotHeldException: 'prices' is not held by this process: it is a hold of the parent process
remaining: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
previous: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
acknowledge: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
release: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
release with a cooldown: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
release again: Lockshm\NotHeldException: 'report' is not held by this process: it is a hold of the parent process
bool(false)
bool(false)
bool(true)
bool(false)
returned NULL
returned false
Lockshm\TimeoutException: 'report': not granted in 0.01 s: held exclusive by pid N (php) for N s
of the parent: holding by it;holding by it;holding by it;holding by it;
int(0)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
-- a callable that forks
inside: holding
afterwards: cooling
