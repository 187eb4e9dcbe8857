--TEST--
wrong arguments are named
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
use Lockshm\{Hold, Locks};
$locks = segment();
attempt(fn() => $locks->exclusive(''));
attempt(fn() => $locks->exclusive(str_repeat('x', 65536)));
attempt(fn() => $locks->exclusive('a', -1));
attempt(fn() => $locks->exclusive('a', NAN));
attempt(fn() => $locks->exclusive('a', lease: 0));
attempt(fn() => $locks->exclusive('a', lease: 1e12));
attempt(fn() => $locks->exclusive('a', lease: 0.1));
attempt(fn() => $locks->tryExclusive('a', 0.1));
attempt(fn() => $locks->shared('a', outlive: true));
attempt(fn() => $locks->exclusive('a', lease: null, outlive: true)->remaining());
attempt(fn() => $locks->exclusive('a', maxHold: 5, renew: false));
attempt(fn() => $locks->tryShared('a', maxHold: -5));
attempt(fn() => $locks->exclusive('a', tag: str_repeat('t', 31)));
attempt(fn() => $locks->exclusive('a', tag: "t\0t"));
attempt(fn() => $locks->exclusive('a', timeout: INF, lease: INF)->remaining());
attempt(fn() => $locks->isLocked(''));
attempt(fn() => $locks->holders(''));
attempt(fn() => $locks->once('a', 0, fn() => 1));
attempt(fn() => $locks->once('a', 1, 'no such function'));
attempt(fn() => $locks->singleFlight('', fn() => 1, fn() => 1));
attempt(fn() => $locks->seat('a', fn() => 1, -3));
attempt(fn() => Locks::open('a b'));
attempt(fn() => Locks::open("a\0b"));
attempt(fn() => Locks::open('a', ['lock' => 1]));
attempt(fn() => Locks::open('a', [1]));
attempt(fn() => Locks::open('a', ['keys' => 0]));
attempt(fn() => Locks::open('a', ['permissions' => 01777]));
attempt(fn() => Locks::open('a', ['group' => 'no such group']));
$hold = $locks->exclusive('a', lease: null);
attempt(fn() => $hold->extend(1));
attempt(fn() => $hold->renew(0));
attempt(fn() => $hold->release(-1));
attempt(fn() => $locks->shared('s')->release(1));
attempt(fn() => clone $hold);
attempt(fn() => clone $locks);
attempt(fn() => serialize($hold));
attempt(fn() => unserialize('O:12:"Lockshm\Hold":0:{}'));
attempt(fn() => new Hold());
attempt(fn() => new Locks());
attempt(fn() => (new ReflectionClass(Hold::class))->newInstanceWithoutConstructor());
attempt(fn() => $hold->colour = 'red');
attempt(fn() => $locks->holders('a')[0]->pid = 1);
var_dump($hold->release());
?>
--EXPECT--
ValueError: Lockshm\Locks::exclusive(): Argument #1 ($key) must be 1 to 65535 bytes long, 0 given
ValueError: Lockshm\Locks::exclusive(): Argument #1 ($key) must be 1 to 65535 bytes long, 65536 given
ValueError: Lockshm\Locks::exclusive(): Argument #2 ($timeout) must be between 0 and 315360000 seconds, -1 given
ValueError: Lockshm\Locks::exclusive(): Argument #2 ($timeout) must be between 0 and 315360000 seconds, NAN given
ValueError: Lockshm\Locks::exclusive(): Argument #3 ($lease) must be between 0.001 and 315360000 seconds, 0 given
ValueError: Lockshm\Locks::exclusive(): Argument #3 ($lease) must be between 0.001 and 315360000 seconds, 1.0e+12 given
ValueError: Lockshm\Locks::exclusive(): Argument #3 ($lease) must be at least 0.2 seconds to be renewed, or "renew" false; 0.1 given
ValueError: Lockshm\Locks::tryExclusive(): Argument #2 ($lease) must be at least 0.2 seconds to be renewed, or "renew" false; 0.1 given
ValueError: Lockshm\Locks::shared(): Argument #6 ($outlive) must be false for a shared hold
returned NULL
ValueError: Lockshm\Locks::exclusive(): Argument #5 ($maxHold) must be null where no lease is renewed
ValueError: Lockshm\Locks::tryShared(): Argument #4 ($maxHold) must be between 0.001 and 315360000 seconds, -5 given
ValueError: Lockshm\Locks::exclusive(): Argument #8 ($tag) must be at most 30 bytes long, 31 given
ValueError: Lockshm\Locks::exclusive(): Argument #8 ($tag) must not contain any null bytes
returned NULL
ValueError: Lockshm\Locks::isLocked(): Argument #1 ($key) must be 1 to 65535 bytes long, 0 given
ValueError: Lockshm\Locks::holders(): Argument #1 ($key) must be 1 to 65535 bytes long, 0 given
ValueError: Lockshm\Locks::once(): Argument #2 ($period) must be between 0.001 and 315360000 seconds, 0 given
TypeError: Lockshm\Locks::once(): Argument #3 ($fn) must be a valid callback, function "no such function" not found or invalid function name
ValueError: Lockshm\Locks::singleFlight(): Argument #1 ($key) must be 1 to 65535 bytes long, 0 given
ValueError: Lockshm\Locks::seat(): Argument #3 ($lease) must be between 0.001 and 315360000 seconds, -3 given
ValueError: not a segment name: 1 to 200 letters, digits, '.', '_', '-', not beginning with '.'
ValueError: Lockshm\Locks::open(): Argument #1 ($segment) must not contain any null bytes
ValueError: Lockshm\Locks::open(): Argument #2 ($options) is wrong: a segment has no option 'lock'
ValueError: Lockshm\Locks::open(): Argument #2 ($options) is wrong: a segment has no option '(a number)'
ValueError: Lockshm\Locks::open(): Argument #2 ($options) is wrong: keys is 0, must be 1..11184810
ValueError: Lockshm\Locks::open(): Argument #2 ($options) is wrong: permissions is 1777, must be 0600 plus bits of 0066
ValueError: Lockshm\Locks::open(): Argument #2 ($options) is wrong: group is 'no such group', must be the number of a group
ValueError: Lockshm\Hold::extend(): Argument #1 ($seconds) cannot be added: this hold has no lease
ValueError: Lockshm\Hold::renew(): Argument #1 ($seconds) must be between 0.001 and 315360000 seconds, 0 given
ValueError: Lockshm\Hold::release(): Argument #1 ($cooldown) must be between 0 and 315360000 seconds, -1 given
ValueError: Lockshm\Hold::release(): Argument #1 ($cooldown) must be 0 for a shared hold
Error: Trying to clone an uncloneable object of class Lockshm\Hold
Error: Trying to clone an uncloneable object of class Lockshm\Locks
Exception: Serialization of 'Lockshm\Hold' is not allowed
Exception: Unserialization of 'Lockshm\Hold' is not allowed
Error: Call to private Lockshm\Hold::__construct() from global scope
Error: Call to private Lockshm\Locks::__construct() from global scope
ReflectionException: Class Lockshm\Hold is an internal class marked as final that cannot be instantiated without invoking its constructor
Error: Cannot create dynamic property Lockshm\Hold::$colour
Error: Cannot modify readonly property Lockshm\Holder::$pid
bool(true)
