--TEST--
singleFlight: errors of its functions, null as a value, stale
--EXTENSIONS--
lockshm
posix
pcntl
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$store = tempnam(sys_get_temp_dir(), 'flight');
$log = tempnam(sys_get_temp_dir(), 'flight');
$look = fn() => file_get_contents($store) ?: null;
$fill = function (string $value) use ($store, $log) {
    file_put_contents($log, "filled\n", FILE_APPEND);
    file_put_contents($store, $value);
    return $value;
};

var_dump($locks->singleFlight('page', $look, fn() => $fill('filled')), file_get_contents($log));
var_dump($locks->singleFlight('page', $look, fn() => 'not called'));
unlink($store);
touch($store);
attempt(fn() => $locks->singleFlight('page', $look, fn() => throw new DomainException('fill')));
attempt(fn() => $locks->singleFlight('page', fn() => throw new DomainException('look'), fn() => 1));
var_dump($locks->isLocked('page'), $locks->singleFlight('page', $look, fn() => null));
$other = holder($locks, 'page');
attempt(fn() => $locks->singleFlight('page', $look, fn() => 1, 0.01));
var_dump($locks->singleFlight('page', $look, fn() => 1, 0.01, stale: fn(Lockshm\TimeoutException $error) => 'stale, ' . ($error->holder->pid === $other->pid ? 'held' : '?')));
attempt(fn() => $locks->singleFlight('page', $look, fn() => 1, 0, stale: fn() => throw new DomainException('stale')));
$other->kill();
unlink($store);
unlink($log);
?>
--EXPECT--
string(6) "filled"
string(7) "filled
"
string(6) "filled"
DomainException: fill
DomainException: look
bool(false)
NULL
Lockshm\TimeoutException: 'page': not granted in 0.01 s: held exclusive by pid N (php) for N s
string(11) "stale, held"
DomainException: stale
