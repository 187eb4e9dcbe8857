--TEST--
handlers run during a wait, which keeps its place; an exception or exit of one ends it and leaves nothing
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();

/** A process that waits for 'report' with handlers; prints what happens. */
function waiter(Lockshm\Locks $locks, ?callable $handler, mixed ...$options): Child
{
    $child = new Child(function ($socket) use ($locks, $handler, $options) {
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, function () use ($socket, $handler, $locks) {
            fwrite($socket, "handler\n");
            $handler && $handler($locks);
        });
        fwrite($socket, "waits\n");
        try {
            $hold = $locks->exclusive('report', ...$options);
            fwrite($socket, 'granted ' . json_encode($hold->isHeld()) . "\n");
            fgets($socket);
        } catch (Exception $error) {
            fwrite($socket, $error::class . "\n");
        }
    });
    $child->line();
    return $child;
}

$hold = $locks->exclusive('report');
$first = waiter($locks, fn($locks) => $locks->exclusive('inner', 60)->release(), null, lease: null);
until(fn() => requests($locks) === 2);
$second = waiter($locks, null, 60);
until(fn() => requests($locks) === 3);
$inner = $locks->exclusive('inner');
$first->kill(SIGUSR1);
echo $first->line(), "\n";
until(fn() => requests($locks) === 5);
$inner->release();
until(fn() => requests($locks) === 3);
$first->kill(SIGUSR1);
echo $first->line(), "\n";
$hold->release();
echo $first->line(), "\n";
$first->go();
echo $first->wait(), "\n", $second->line(), "\n";
$second->go();
$second->wait();

$hold = $locks->exclusive('report');
foreach (['throw' => fn() => throw new DomainException('out'), 'exit' => fn() => exit(7), 'kill' => fn() => posix_kill(getmypid(), SIGKILL)] as $how => $handler) {
    $child = waiter($locks, $handler, 60);
    until(fn() => requests($locks) === 2);
    $child->kill(SIGUSR1);
    echo "$how: ", $child->line(), ' ', $child->line(), ' ', $child->wait(), "\n";
    if ($how !== 'kill') {
        var_dump(requests($locks));
    }
}

pcntl_async_signals(true);
attempt(fn() => $locks->exclusive('report', null));
attempt(fn() => $locks->exclusive('report', 0));
$hold->release();
var_dump($locks->exclusive('report')->release());
$other = holder($locks, 'busy');
attempt(fn() => $locks->exclusive('busy', 0.01));
$other->kill();
var_dump($locks->exclusive('busy', 60)->release());
?>
--EXPECT--
handler
handler
granted true
0
granted true
throw: handler DomainException 0
int(1)
exit: handler  7
int(1)
kill: handler  -9
Lockshm\DeadlockException: 'report': this process holds it already: use that hold, or release it first
Lockshm\BusyException: 'report': not free: held exclusive by pid N (php) for N s
bool(true)
Lockshm\TimeoutException: 'busy': not granted in 0.01 s: held exclusive by pid N (php) for N s
bool(true)
