--TEST--
exclusive and shared holds
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$hold = $locks->exclusive('report', tag: 'nightly');
var_dump($hold->key(), $hold->isExclusive(), $hold->isHeld(), $hold->check(), $hold->token() > 0);
var_dump($hold->remaining() > 29, $locks->isLocked('report'), $locks->isLocked('other'));
[$holder] = $locks->holders('report');
var_dump($holder->state, $holder->mode, $holder->pid === getmypid(), $holder->tid === getmypid(), $holder->name, $holder->tag);
var_dump($holder->token === $hold->token(), $holder->age >= 0, $holder->expiresIn > 29);
var_dump($locks->tryExclusive('report'), $locks->tryShared('report'), $locks->skipped(), $locks->lastHolder()->tag);
$first = $hold->token();
var_dump($hold->release(), $hold->isHeld(), $hold->token(), $locks->isLocked('report'), $locks->holders('report'));

$one = $locks->shared('report');
$two = $locks->tryShared('report', lease: null);
var_dump($one->token() > $first, $two->remaining(), count($locks->holders('report')), $locks->tryExclusive('report'));
attempt($one->upgrade(...));
$two->release();
var_dump($one->upgrade(), $one->isExclusive(), $one->downgrade(), $one->isExclusive());
var_dump($one->renew(40), $one->remaining() > 35, $one->extend(40), $one->remaining() > 75, $one->renew(), $one->remaining() < 31, $one->renew(INF), $one->remaining());
$one->release(cooldown: 0);
var_dump(count($locks->holders('report')));

$child = holder($locks, 'queue', tag: 'first');
$waiter = new Child(fn() => $locks->shared('queue', 60, tag: 'second'));
until(fn() => count($locks->holders('queue')) === 2);
[$first, $second] = $locks->holders('queue');
echo "$first->state $first->mode $first->tag, $second->state $second->mode $second->tag\n";
var_dump($first->pid === $child->pid, $second->pid === $waiter->pid, $first->token > 0, $second->token, $second->age >= 0, $second->expiresIn);
$waiter->kill();
until(fn() => count($locks->holders('queue')) === 1);
$child->kill();
until(fn() => $locks->holders('queue') === []);
var_dump($locks->name() === 'phpt-' . getmypid(), Locks()->name() === $locks->name());
function Locks() { return Lockshm\Locks::open('/phpt-' . getmypid()); }
?>
--EXPECT--
string(6) "report"
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(false)
string(7) "holding"
string(9) "exclusive"
bool(true)
bool(true)
string(3) "php"
string(7) "nightly"
bool(true)
bool(true)
bool(true)
NULL
NULL
int(2)
string(7) "nightly"
bool(true)
bool(false)
int(0)
bool(false)
array(0) {
}
bool(true)
NULL
int(2)
NULL
Lockshm\BusyException: 'report': still shared, other requests hold it or wait: held shared by pid N (php) for N s
bool(true)
bool(true)
bool(true)
bool(false)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
NULL
int(0)
holding exclusive first, waiting shared second
bool(true)
bool(true)
bool(true)
int(0)
bool(true)
NULL
bool(true)
bool(true)
