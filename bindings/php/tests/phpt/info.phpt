--TEST--
phpinfo, settings, constants, the interface as written in the stub
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$hold = $locks->exclusive('report');
ob_start();
phpinfo(INFO_MODULES);
$info = ob_get_clean();
var_dump((bool)preg_match('/^lockshm support => enabled$/m', $info), (bool)preg_match('/^session save handler => lockshm$/m', $info));
var_dump((bool)preg_match('/^' . $locks->name() . ' => 1 keys busy, 1 of \d+ requests, \d of \d+ owners, 1 acquires, 0 after a wait$/m', $info));
var_dump((bool)preg_match('/^Registered save handlers => .*lockshm/m', $info));
var_dump(Lockshm\VERSION, Lockshm\LIBRARY_VERSION === phpversion('lockshm') || Lockshm\LIBRARY_VERSION > '0');
var_dump(array_map(fn($class) => $class . ' ' . (get_parent_class($class) ?: '-'), (new ReflectionExtension('lockshm'))->getClassNames()));
var_dump(ini_get('lockshm.session_handler'), ini_get('lockshm.session_wait'));
attempt(fn() => throw new Lockshm\TimeoutException('by hand', -1));
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
string(5) "0.1.0"
bool(true)
array(13) {
  [0]=>
  string(15) "Lockshm\Locks -"
  [1]=>
  string(14) "Lockshm\Hold -"
  [2]=>
  string(16) "Lockshm\Holder -"
  [3]=>
  string(16) "Lockshm\Damage -"
  [4]=>
  string(34) "Lockshm\Exception RuntimeException"
  [5]=>
  string(42) "Lockshm\TimeoutException Lockshm\Exception"
  [6]=>
  string(46) "Lockshm\BusyException Lockshm\TimeoutException"
  [7]=>
  string(39) "Lockshm\LostException Lockshm\Exception"
  [8]=>
  string(42) "Lockshm\NotHeldException Lockshm\Exception"
  [9]=>
  string(43) "Lockshm\DeadlockException Lockshm\Exception"
  [10]=>
  string(39) "Lockshm\FullException Lockshm\Exception"
  [11]=>
  string(42) "Lockshm\SegmentException Lockshm\Exception"
  [12]=>
  string(41) "Lockshm\BridgeException Lockshm\Exception"
}
string(5) "files"
string(2) "20"
Lockshm\TimeoutException: by hand
