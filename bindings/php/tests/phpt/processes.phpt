--TEST--
a fork, a deadlock of two processes, a damage mark
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$hold = $locks->exclusive('report');
$child = new Child(function ($socket) use ($locks, $hold) {
    fwrite($socket, json_encode([$hold->isHeld(), $locks->tryExclusive('report') === null, $locks->exclusive('own')->isHeld()]) . "\n");
    foreach ([$hold->check(...), $hold->release(...), $hold->release(...)] as $call) {
        try {
            $call();
        } catch (Lockshm\NotHeldException $error) {
            fwrite($socket, $error->getMessage() . "\n");
        }
    }
});
var_dump($child->line(), $child->line(), $child->line(), $child->line(), $child->wait(), $hold->check(), $locks->isLocked('own'));

$child = new Child(function ($socket) use ($locks) {
    $two = $locks->exclusive('two');
    fwrite($socket, "held\n");
    $report = $locks->exclusive('report', 60);
    fwrite($socket, "granted\n");
});
$child->line();
until(fn() => requests($locks) === 3);
attempt(fn() => $locks->exclusive('two', 60));
$hold->release();
var_dump($child->line(), $child->wait());

$child = holder($locks, 'data', robust: true, tag: 'writer');
$child->kill();
$hold = $locks->exclusive('data', 60, robust: true);
$previous = $hold->damage();
var_dump($previous->status, $previous->pid === $child->pid, $previous->tid === $child->pid, $previous->tag, $previous->token > 0, $previous->age >= 0);
$hold->acknowledge();
var_dump($hold->damage());
?>
--EXPECT--
string(17) "[false,true,true]"
string(72) "'report' is not held by this process: it is a hold of the parent process"
string(72) "'report' is not held by this process: it is a hold of the parent process"
string(72) "'report' is not held by this process: it is a hold of the parent process"
int(0)
bool(true)
bool(false)
Lockshm\DeadlockException: 'two': deadlock: pid N waits for "two" held by pid N, which waits for "report" held by pid N
string(7) "granted"
int(0)
string(4) "died"
bool(true)
bool(true)
string(6) "writer"
bool(true)
bool(true)
NULL
