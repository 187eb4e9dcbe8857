--TEST--
session.save_handler=lockshm: the hold of an id, from the start to the close
--EXTENSIONS--
lockshm
posix
pcntl
--INI--
session.save_handler=lockshm
session.use_cookies=0
session.use_only_cookies=0
session.cache_limiter=
lockshm.session_wait=0.05
--FILE--
<?php
require __DIR__ . '/support.inc';
use Lockshm\Locks;
ob_start();
$locks = Locks::open();
register_shutdown_function(function () use ($locks) {
    Locks::destroy($locks->name());
});
$folder = sys_get_temp_dir() . '/sess-' . getmypid();
mkdir($folder);
session_save_path($folder);
$held = fn(string $id) => ($locks->holders('session:' . sha1($id))[0] ?? null)?->mode ?? 'free';
$start = function (string $id, array $options = []) {
    session_id($id);
    return session_start($options);
};

var_dump($start('one'), $held('one'));
exec(strtr('$LOCKCTL show SEGMENT "session:$(printf %s ID | sha1sum | cut -c1-40)"', ['SEGMENT' => $locks->name(), 'ID' => 'one']), $shown);
var_dump(preg_match('/^ *' . getmypid() . ' +exclusive/m', implode("\n", $shown)) === 1);
$_SESSION['n'] = 1;
var_dump(session_write_close(), $held('one'), file_get_contents("$folder/sess_one"));

var_dump($start('one'), $_SESSION);
$_SESSION['n'] = 2;
var_dump(session_reset(), $held('one'), $_SESSION['n'], session_abort(), $held('one'));

var_dump($start('one'), session_regenerate_id());
$next = session_id();
var_dump($next !== 'one', $held('one'), $held($next), $_SESSION);
var_dump(session_regenerate_id(true), file_exists("$folder/sess_$next"), $held($next), $held(session_id()));
session_write_close();
var_dump($held(session_id()));

var_dump($start('one', ['read_and_close' => true]), $_SESSION, $held('one'), $start('one', ['read_and_close' => false]), $held('one'));
session_write_close();
var_dump($start('two'), $held('one'), $held('two'), session_destroy(), $held('two'), file_exists("$folder/sess_two"));

echo "-- strict mode\n";
var_dump($start('none', ['use_strict_mode' => 1]), session_id() !== 'none', $held('none'), $held(session_id()));
var_dump(session_create_id('x-') !== false, $held(session_id()));
session_destroy();
var_dump($start('one', ['use_strict_mode' => 1]), session_id(), $held('one'), session_gc());
session_write_close();

echo "-- held by another process\n";
$other = holder($locks, 'session:' . sha1('one'), tag: 'other');
foreach ([[], ['use_strict_mode' => 1], ['read_and_close' => true]] as $options) {
    ini_set('session.use_strict_mode', 0);
    var_dump($start('one', $options), session_id(), session_status() === PHP_SESSION_NONE);
}
var_dump(file_get_contents("$folder/sess_one"));
$other->kill();
ini_set('lockshm.session_wait', 60);
ini_set('session.use_strict_mode', 0);
var_dump($start('one'), $held('one'));
session_write_close();
$reader = new Child(function ($socket) use ($locks) {
    $hold = $locks->shared('session:' . sha1('one'));
    fwrite($socket, "held\n");
    fgets($socket);
});
$reader->line();
var_dump($start('one', ['read_and_close' => true]));
ini_set('lockshm.session_wait', 0);
var_dump($start('one'));
$reader->kill();
$reader->wait();

echo "-- taken away by an operator\n";
$start('one');
$_SESSION['n'] = 3;
exec(getenv('LOCKCTL') . ' release ' . $locks->name() . ' session:' . sha1('one') . ' --token ' . $locks->holders('session:' . sha1('one'))[0]->token, $output, $status);
var_dump($status, session_write_close(), file_get_contents("$folder/sess_one"));

echo "-- the child of a fork\n";
$start('one');
$_SESSION['n'] = 4;
foreach (['session_write_close', 'session_reset'] as $call) {
    $child = new Child(function ($socket) use ($call) {
        $_SESSION['n'] = 5;
        ob_start();
        $call();
        fwrite($socket, preg_replace('/ in \/.*/', '', explode("\n", ob_get_clean())[1]) . "\n");
        posix_kill(getmypid(), SIGKILL);
    });
    var_dump($child->line(), $child->wait());
}
var_dump(file_get_contents("$folder/sess_one"), $held('one'));
session_write_close();
var_dump(file_get_contents("$folder/sess_one"));

echo "-- the other handler fails\n";
session_save_path("$folder/none");
var_dump($start('one'), $held('one'));
session_save_path($folder);

echo "-- wrong settings\n";
foreach (['user', 'lockshm', 'none', ''] as $handler) {
    ini_set('lockshm.session_handler', $handler);
    var_dump($start('one'));
}
var_dump(ini_set('lockshm.session_wait', '-1'), ini_set('lockshm.session_wait', 'x'));
array_map(unlink(...), glob("$folder/*"));
rmdir($folder);
echo preg_replace(['/ in \/.*/', '/pid \d+/', '/\d+\.\d s/', '/\/\S*sess-\d+/', "/$next/"], ['', 'pid N', 'N s', 'FOLDER', 'NEXT'], ob_get_clean());
?>
--EXPECT--
bool(true)
string(9) "exclusive"
bool(true)
bool(true)
string(4) "free"
string(6) "n|i:1;"
bool(true)
array(1) {
  ["n"]=>
  int(1)
}
bool(true)
string(9) "exclusive"
int(1)
bool(true)
string(4) "free"
bool(true)
bool(true)
bool(true)
string(4) "free"
string(9) "exclusive"
array(1) {
  ["n"]=>
  int(1)
}
bool(true)
bool(false)
string(4) "free"
string(9) "exclusive"
string(4) "free"
bool(true)
array(1) {
  ["n"]=>
  int(1)
}
string(4) "free"
bool(true)
string(9) "exclusive"
bool(true)
string(4) "free"
string(9) "exclusive"
bool(true)
string(4) "free"
bool(false)
-- strict mode
bool(true)
bool(true)
string(4) "free"
string(9) "exclusive"
bool(true)
string(9) "exclusive"
bool(true)
string(3) "one"
string(9) "exclusive"
int(0)
-- held by another process

Warning: session_start(): The session is in use: not granted in 0.05 s: held exclusive by pid N (php) 'other' for N s

Warning: session_start(): Failed to read session data: lockshm (path: FOLDER)
bool(false)
string(0) ""
bool(true)

Warning: session_start(): The session is in use: not granted in 0.05 s: held exclusive by pid N (php) 'other' for N s

Warning: session_start(): Failed to read session data: lockshm (path: FOLDER)
bool(false)
string(0) ""
bool(true)

Warning: session_start(): The session is in use: not granted in 0.05 s: held exclusive by pid N (php) 'other' for N s

Warning: session_start(): Failed to read session data: lockshm (path: FOLDER)
bool(false)
string(0) ""
bool(true)
string(6) "n|i:1;"
bool(true)
string(9) "exclusive"
bool(true)

Warning: session_start(): The session is in use: not free: held shared by pid N (php) for N s

Warning: session_start(): Failed to read session data: lockshm (path: FOLDER)
bool(false)
-- taken away by an operator

Warning: session_write_close(): The session is not written: its lock was lost, and another request has or had it

Warning: session_write_close(): Failed to write session data (lockshm). Please verify that the current setting of session.save_path is correct (FOLDER)
int(0)
bool(true)
string(6) "n|i:1;"
-- the child of a fork
string(98) "Warning: session_write_close(): The session is not written: its lock is that of the parent process"
int(-9)
string(89) "Warning: session_reset(): The session is not read: its lock is that of the parent process"
int(-9)
string(6) "n|i:1;"
string(9) "exclusive"
string(6) "n|i:4;"
-- the other handler fails

Warning: session_start(): open(FOLDER/none/sess_one, O_RDWR) failed: No such file or directory (2)

Warning: session_start(): The save handler "files" (lockshm.session_handler) failed to read the session

Warning: session_start(): Failed to read session data: lockshm (path: FOLDER/none)
bool(false)
string(4) "free"
-- wrong settings

Warning: session_start(): lockshm.session_handler: "user" is no save handler that stores sessions

Warning: session_start(): Failed to initialize storage module: lockshm (path: FOLDER)
bool(false)

Warning: session_start(): lockshm.session_handler: "lockshm" is no save handler that stores sessions

Warning: session_start(): Failed to initialize storage module: lockshm (path: FOLDER)
bool(false)

Warning: session_start(): lockshm.session_handler: "none" is no save handler that stores sessions

Warning: session_start(): Failed to initialize storage module: lockshm (path: FOLDER)
bool(false)

Warning: session_start(): lockshm.session_handler: "" is no save handler that stores sessions

Warning: session_start(): Failed to initialize storage module: lockshm (path: FOLDER)
bool(false)

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "-1" given; it stays 0

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "x" given; it stays 0
bool(false)
bool(false)
