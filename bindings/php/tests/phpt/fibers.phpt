--TEST--
fibers: a hold is the process's: any fiber may use and release it, and the end of a fiber ends its variables
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$taker = new Fiber(function () use ($locks) {
    $hold = $locks->exclusive('report');
    Fiber::suspend($hold);
    echo 'the taker: ';
    attempt(fn() => $hold->check());
});
$hold = $taker->start();
$other = new Fiber(function () use ($locks, $hold) {
    attempt(fn() => $locks->tryExclusive('report'));
    attempt(fn() => $locks->exclusive('report', null));
    pcntl_async_signals(true);
    attempt(fn() => $locks->exclusive('report', null));
    pcntl_async_signals(false);
    var_dump($hold->renew(5), $hold->release());
});
$other->start();
var_dump($locks->isLocked('report'));
$taker->resume();

echo "-- three on one object, one after the other\n";
$inside = 0;
$fibers = [];
for ($i = 0; $i < 3; $i++) {
    $fibers[] = new Fiber(function () use ($locks, &$inside) {
        while (!$hold = $locks->tryExclusive('job')) {
            Fiber::suspend();
        }
        $inside++;
        Fiber::suspend();
        echo "$inside inside\n";
        $inside--;
        $hold->release();
    });
}
foreach ($fibers as $fiber) {
    $fiber->start();
}
while ($fibers = array_filter($fibers, fn($fiber) => !$fiber->isTerminated())) {
    foreach ($fibers as $fiber) {
        $fiber->resume();
    }
}

echo "-- a fiber that is dropped\n";
$dropped = new Fiber(function () use ($locks) {
    $hold = $locks->exclusive('dropped');
    Fiber::suspend();
});
$dropped->start();
var_dump($locks->isLocked('dropped'));
unset($dropped);
gc_collect_cycles();
var_dump($locks->isLocked('dropped'));
?>
--EXPECT--
returned NULL
Lockshm\DeadlockException: 'report': this process holds it already: use that hold, or release it first
Lockshm\DeadlockException: 'report': this process holds it already: use that hold, or release it first
bool(true)
bool(true)
bool(false)
the taker: Lockshm\NotHeldException: 'report' is not held: it was released before
-- three on one object, one after the other
1 inside
1 inside
1 inside
-- a fiber that is dropped
bool(true)
bool(false)
