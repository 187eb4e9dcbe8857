--TEST--
a null byte cuts no name; keys may have one
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
use Lockshm\Locks;
$locks = segment();
$name = $locks->name();
attempt(fn() => Locks::open("$name\0x"));
attempt(fn() => Locks::destroy("$name\0x"));
attempt(fn() => Locks::open("phpt\0x", ['redis' => "redis://127.0.0.1\0x"]));
foreach ([
    ['redis' => "redis://127.0.0.1\0x"],
    ['redis' => ['redis://127.0.0.1', "redis://127.0.0.2\0x"]],
    ['global_keys' => "job:\0x"],
    ['global_keys' => ["job:\0", 'user:']],
    ['redis_prefix' => "p\0x"],
    ['redis_policy' => "fail\0x"],
    ['group' => posix_getgrgid(posix_getgid())['name'] . "\0x"],
    ["mode\0x" => 0600],
    ["locks\0" => 1024],
] as $options) {
    attempt(fn() => Locks::open("$name-new", $options));
}
clearstatcache();
var_dump(is_file("/dev/shm/$name"), is_file("/dev/shm/$name-new"));
attempt(fn() => $locks->exclusive('a', tag: "t\0t"));
attempt(fn() => $locks->exclusive('a', redisPolicy: "fail\0x"));
foreach (['session_handler' => "files\0x", 'session_wait' => "5\0x", 'session_global' => "1\0x"] as $setting => $value) {
    var_dump(@ini_set("lockshm.$setting", $value), ini_get("lockshm.$setting"), error_get_last()['message']);
}
$one = $locks->exclusive("a\0b");
$two = $locks->exclusive("a\0c");
$three = $locks->exclusive('a');
var_dump($one->key() === "a\0b", $locks->tryExclusive("a\0b"), $locks->isLocked("a\0"), count($locks->holders("a\0c")));
?>
--EXPECT--
ValueError: Lockshm\Locks::open(): Argument #1 ($segment) must not contain any null bytes
ValueError: Lockshm\Locks::destroy(): Argument #1 ($segment) must not contain any null bytes
ValueError: Lockshm\Locks::open(): Argument #1 ($segment) must not contain any null bytes
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "redis"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "redis"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "global_keys"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "global_keys"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "redis_prefix"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "redis_policy"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in "group"
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in the name of an option
ValueError: Lockshm\Locks::open(): Argument #2 ($options) must not contain any null bytes in the name of an option
bool(true)
bool(false)
ValueError: Lockshm\Locks::exclusive(): Argument #8 ($tag) must not contain any null bytes
ValueError: Lockshm\Locks::exclusive(): Argument #10 ($redisPolicy) must be "fail", "wait" or "local-only", or null
bool(false)
string(5) "files"
string(74) "lockshm.session_handler must not contain any null bytes; it is not changed"
bool(false)
string(2) "20"
string(71) "lockshm.session_wait must not contain any null bytes; it is not changed"
bool(false)
string(1) "0"
string(73) "lockshm.session_global must not contain any null bytes; it is not changed"
bool(true)
NULL
bool(false)
int(1)
