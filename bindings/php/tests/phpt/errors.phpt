--TEST--
each failure has its exception, with what was in the way
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$other = holder($locks, 'report', tag: 'nightly');
attempt(fn() => $locks->exclusive('report', 0));
attempt(fn() => $locks->shared('report', 0.01));
try {
    $locks->exclusive('report', 0);
} catch (Lockshm\TimeoutException $error) {
    var_dump($error->holder->pid === $other->pid, $error->holder->tag, $error->getCode());
}
$tagged = $locks->exclusive('tagged', tag: "a\x1b[2J\n\xffb");
attempt(fn() => $locks->exclusive('tagged', 0));
$tagged->release();
$hold = $locks->exclusive('mine');
attempt(fn() => $locks->exclusive('mine'));
attempt(fn() => $locks->exclusive('mine', 0));
pcntl_async_signals(true);
attempt(fn() => $locks->exclusive('mine'));
pcntl_async_signals(false);
attempt(fn() => $locks->singleFlight('mine', fn() => null, fn() => 1));
$hold->release();
$hold = $locks->shared('mine');
attempt(fn() => $locks->exclusive('mine'));
$hold->release();
attempt($hold->release(...));
attempt($hold->check(...));
attempt($hold->renew(...));
attempt(fn() => $hold->extend(1));
attempt($hold->upgrade(...));
attempt($hold->downgrade(...));
attempt($hold->remaining(...));
attempt($hold->damage(...));
attempt($hold->acknowledge(...));

$short = $locks->exclusive('short', lease: 0.001, renew: false);
until(fn() => $short->remaining() === 0.0);
var_dump($short->check(), $short->renew(30), $short->check());
$short->renew(0.001);
until(fn() => $short->remaining() === 0.0);
$next = $locks->exclusive('short');
var_dump($short->isHeld());
attempt($short->check(...));
attempt($short->release(...));
attempt($short->release(...));
$late = $locks->exclusive('late', lease: 0.001, renew: false);
until(fn() => $late->remaining() === 0.0);
var_dump($late->release());
$ended = $locks->exclusive('ended');
var_dump($locks->end('ended', $ended->token() + 1), $ended->isHeld(), $locks->end('ended', $ended->token()), $locks->isLocked('ended'));
attempt($ended->check(...));
$locks->exclusive('ended', tag: 'was here')->release(60);
var_dump($locks->holders('ended')[0]->tag, $locks->end('ended', $locks->holders('ended')[0]->token), $locks->isLocked('ended'));
attempt(fn() => $locks->end('', 1));
attempt(fn() => Lockshm\Locks::destroy('phpt-none-' . getmypid()));
attempt(function () { throw new Lockshm\LostException('by hand'); });
$other->kill();
?>
--EXPECTF--
Lockshm\BusyException: 'report': not free: held exclusive by pid N (php) 'nightly' for N s
Lockshm\TimeoutException: 'report': not granted in 0.01 s: held exclusive by pid N (php) 'nightly' for N s
bool(true)
string(7) "nightly"
int(-2)
Lockshm\BusyException: 'tagged': not free: held exclusive by pid N (php) 'a?[2J??b' for N s
Lockshm\DeadlockException: 'mine': this process holds it already: use that hold, or release it first
Lockshm\BusyException: 'mine': not free: held exclusive by pid N (php) for N s
Lockshm\DeadlockException: 'mine': this process holds it already: use that hold, or release it first
Lockshm\DeadlockException: 'mine': this process holds it already: use that hold, or release it first
Lockshm\DeadlockException: 'mine': this process holds it already: use that hold, or release it first
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
Lockshm\NotHeldException: 'mine' is not held: it was released before
bool(false)
bool(false)
bool(true)
bool(false)
Lockshm\LostException: 'short' was lost: the lease expired and another request took the key (token N was issued after it), or an operator ended the hold
Lockshm\LostException: 'short' was lost: the lease expired and another request took the key (token N was issued after it), or an operator ended the hold
Lockshm\NotHeldException: 'short' is not held: it was released before
bool(false)
bool(false)
bool(true)
bool(true)
bool(false)
Lockshm\LostException: 'ended' was lost: the lease expired and another request took the key, or an operator ended the hold
string(8) "was here"
bool(true)
bool(false)
ValueError: Lockshm\Locks::end(): Argument #1 ($key) must be 1 to 65535 bytes long, 0 given
Lockshm\SegmentException: no segment /phpt-none-%d
Lockshm\LostException: by hand
