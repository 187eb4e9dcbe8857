--TEST--
segments: options of a new one, default names, one that was removed while open
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
use Lockshm\Locks;
$locks = segment();
$old = $locks->exclusive('report');
Locks::destroy($locks->name());
$new = $locks->exclusive('report');
var_dump($old->check(), $new->check(), $old->release(), $new->release());
$old = $locks->exclusive('again');
Locks::destroy($locks->name());
$new = $locks->exclusive('again', 1);
var_dump($new->isHeld());
pcntl_async_signals(true);
$other = holder($locks, 'busy');
attempt(fn() => $locks->exclusive('busy', 0.01));
$other->kill();
$other->wait();

$name = 'phpt-options-' . getmypid();
$small = Locks::open($name, ['keys' => 256, 'requests' => 64, 'owners' => 4, 'permissions' => 0640, 'group' => posix_getgrgid(posix_getgid())['name']]);
var_dump(decoct(fileperms("/dev/shm/$name") & 0777), filesize("/dev/shm/$name") < 200_000);
$holds = [];
attempt(function () use ($small, &$holds) {
    for ($i = 0; $i < 65; $i++) {
        $holds[] = $small->exclusive("key $i");
    }
});
var_dump(count($holds));
$holds = [];
Locks::destroy($name);

$lockctl = getenv('LOCKCTL');
exec("$lockctl create $name-made --requests 64", $output, $status);
$size = filesize("/dev/shm/$name-made");
$kept = Locks::open("$name-made", ['requests' => 100_000]);
clearstatcache();
var_dump($status, filesize("/dev/shm/$name-made") === $size);
exec("$lockctl rm $name-made", $output, $status);
$kept->exclusive('key');
clearstatcache();
var_dump($status, filesize("/dev/shm/$name-made") > 2 * $size);
Locks::destroy("$name-made");

ini_set('lockshm.segment', 'other');
var_dump(Locks::open()->name() === ini_get("lockshm.segment"));
Locks::destroy(Locks::open()->name());

file_put_contents("/dev/shm/$name-not", str_repeat('x', 100_000));
attempt(fn() => Locks::open("$name-not"));
unlink("/dev/shm/$name-not");
?>
--EXPECTF--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
Lockshm\TimeoutException: 'busy': not granted in 0.01 s: held exclusive by pid N (php) for N s
string(3) "640"
bool(true)
Lockshm\FullException: 'key 64': request table full: %s
int(64)
int(0)
bool(true)
int(0)
bool(true)
bool(true)
Lockshm\SegmentException: not a lockshm segment (wrong magic); choose another segment name, or remove the file if it is yours
