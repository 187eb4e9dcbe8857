--TEST--
session.save_handler=lockshm: a segment without room for one more hold
--EXTENSIONS--
lockshm
--INI--
session.save_handler=lockshm
session.use_cookies=0
session.use_only_cookies=0
session.cache_limiter=
--FILE--
<?php
use Lockshm\Locks;
ob_start();
$name = ini_get('lockshm.segment');
$locks = Locks::open($name, ['keys' => 64, 'requests' => 16, 'owners' => 4]);
register_shutdown_function(fn() => Locks::destroy($name));
$holds = [];
try {
    for (;;) {
        $holds[] = $locks->exclusive('key ' . count($holds));
    }
} catch (Lockshm\FullException) {
    session_id('one');
    var_dump(session_start());
}
ob_end_flush();
?>
--EXPECTF--
Warning: session_start(): The session cannot be locked: request table full: %s in %s on line %d

Warning: session_start(): Failed to read session data: lockshm (path: %S) in %s on line %d
bool(false)
